#include "hyperion/device/candidates_gpu.h"

#include <algorithm>
#include <cmath>
#include <memory>

namespace hyperion::device {
namespace {

constexpr int kRepeats = 10, kRounds = 4;  // in a graph; that count, of candidates that are near the fastest
constexpr float kNear = 1.2f;              // times what the fastest took in a first look
constexpr float kSlice = 3e3f;             // microseconds of a turn

class Recorded {
 public:
  Recorded(const Candidate& candidate, gpu::Stream stream) : stream_(stream) {
    static_cast<void>(gpu::event_create(&begin_));
    static_cast<void>(gpu::event_create(&end_));
    bool good = candidate(stream) && gpu::stream_synchronize(stream) == gpu::kSuccess &&
                gpu::stream_begin_capture(stream, gpu::kCaptureThreadLocal) == gpu::kSuccess;
    if (!good) return;
    for (int i = 0; i < kRepeats; ++i) good = candidate(stream) && good;
    gpu::Graph graph = nullptr;
    good = gpu::stream_end_capture(stream, &graph) == gpu::kSuccess && good;
    if (!good || gpu::graph_instantiate(&replay_, graph, 0) != gpu::kSuccess) replay_ = nullptr;
    if (graph != nullptr) static_cast<void>(gpu::graph_destroy(graph));
  }
  ~Recorded() {
    if (replay_ != nullptr) static_cast<void>(gpu::graph_exec_destroy(replay_));
    static_cast<void>(gpu::event_destroy(begin_));
    static_cast<void>(gpu::event_destroy(end_));
  }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;

  bool good() const { return replay_ != nullptr; }
  void queue(int64_t replays) {
    static_cast<void>(gpu::event_record(begin_, stream_));
    for (int64_t i = 0; i < replays; ++i) static_cast<void>(gpu::graph_launch(replay_, stream_));
    static_cast<void>(gpu::event_record(end_, stream_));
  }
  // Microseconds of all that was queued last; waits for it.
  float taken() {
    float milliseconds = 0;
    const bool good = gpu::event_synchronize(end_) == gpu::kSuccess &&
                      gpu::event_elapsed_time(&milliseconds, begin_, end_) == gpu::kSuccess;
    return good ? milliseconds * 1e3f : kNever;
  }

 private:
  gpu::Stream stream_;
  gpu::GraphExec replay_ = nullptr;
  gpu::Event begin_ = nullptr, end_ = nullptr;
};

// A first look at each, and then turns of those that are near the fastest.
std::vector<float> timed(std::vector<std::unique_ptr<Recorded>>& candidates) {
  std::vector<float> taken(candidates.size(), kNever);
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i]->good()) continue;
    candidates[i]->queue(1);
    candidates[i]->queue(1);
    taken[i] = candidates[i]->taken() / kRepeats;
  }
  const float best = *std::min_element(taken.begin(), taken.end());
  if (best >= kNever) return taken;
  const auto replays = std::max<int64_t>(1, std::lround(kSlice / (best * kRepeats)));
  std::vector<size_t> near;
  for (size_t i = 0; i < candidates.size(); ++i)
    if (taken[i] < (i == 0 ? kNever : kNear * best)) near.push_back(i);
  std::fill(taken.begin(), taken.end(), kNever);
  for (const size_t i : near) taken[i] = 0;
  for (int round = -1; round < kRounds; ++round) {  // the clock comes down in the first
    for (const size_t i : near) candidates[i]->queue(replays);
    for (const size_t i : near) {
      const float all = candidates[i]->taken();
      if (round >= 0) taken[i] += all / static_cast<float>(kRounds * kRepeats * replays);
    }
  }
  return taken;
}

}  // namespace

std::vector<float> times_in_turns(const std::vector<Candidate>& candidates) {
  gpu::Stream own = nullptr;
  static_cast<void>(gpu::stream_create_with_flags(&own, gpu::kStreamNonBlocking));
  std::vector<std::unique_ptr<Recorded>> recorded;
  for (const auto& candidate : candidates) recorded.push_back(std::make_unique<Recorded>(candidate, own));
  const auto taken = timed(recorded);
  recorded.clear();
  static_cast<void>(gpu::stream_destroy(own));
  static_cast<void>(gpu::get_last_error());  // a candidate that cannot be timed is not taken, and is no error
  return taken;
}

}  // namespace hyperion::device
