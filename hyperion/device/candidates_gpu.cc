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
  Recorded(const Candidate& candidate, cudaStream_t stream) : stream_(stream) {
    cudaEventCreate(&begin_);
    cudaEventCreate(&end_);
    bool good = candidate(stream) && cudaStreamSynchronize(stream) == cudaSuccess &&
                cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess;
    if (!good) return;
    for (int i = 0; i < kRepeats; ++i) good = candidate(stream) && good;
    cudaGraph_t graph = nullptr;
    good = cudaStreamEndCapture(stream, &graph) == cudaSuccess && good;
    if (!good || cudaGraphInstantiate(&replay_, graph, 0) != cudaSuccess) replay_ = nullptr;
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  ~Recorded() {
    if (replay_ != nullptr) cudaGraphExecDestroy(replay_);
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;

  bool good() const { return replay_ != nullptr; }
  void queue(int64_t replays) {
    cudaEventRecord(begin_, stream_);
    for (int64_t i = 0; i < replays; ++i) cudaGraphLaunch(replay_, stream_);
    cudaEventRecord(end_, stream_);
  }
  // Microseconds of all that was queued last; waits for it.
  float taken() {
    float milliseconds = 0;
    const bool good =
        cudaEventSynchronize(end_) == cudaSuccess && cudaEventElapsedTime(&milliseconds, begin_, end_) == cudaSuccess;
    return good ? milliseconds * 1e3f : kNever;
  }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t replay_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
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
  cudaStream_t own;
  cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
  std::vector<std::unique_ptr<Recorded>> recorded;
  for (const auto& candidate : candidates) recorded.push_back(std::make_unique<Recorded>(candidate, own));
  const auto taken = timed(recorded);
  recorded.clear();
  cudaStreamDestroy(own);
  cudaGetLastError();  // a candidate that cannot be timed is not taken, and is no error
  return taken;
}

}  // namespace hyperion::device
