#include "hyperion/profile/span.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "hyperion/base/error.h"

namespace hyperion::profile {
namespace {

int64_t nanoseconds_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Of one thread; outlives it, so that what it told can still be taken.
struct ThreadSpans {
  std::mutex mutex;  // held by its own thread, and for a moment by the one that takes
  int64_t thread = 0;
  std::vector<RecordedSpan> spans;
};

struct AllThreads {
  std::mutex mutex;
  std::vector<std::shared_ptr<ThreadSpans>> threads;
  int64_t met = 0;
};
AllThreads& all_threads() {
  static auto* all = new AllThreads;  // threads may end after statics are gone
  return *all;
}

std::atomic<const SpanMarker*> marker{nullptr};
std::atomic<bool> taken_up{false};  // by a recorder
std::atomic<int64_t> room{0}, dropped{0};

// Made where the thread first records something: one that never does costs nothing.
ThreadSpans& of_this_thread() {
  thread_local const auto own = [] {
    auto made = std::make_shared<ThreadSpans>();
    auto& all = all_threads();
    const std::lock_guard lock(all.mutex);
    made->thread = all.met++;
    all.threads.push_back(made);
    return made;
  }();
  return *own;
}

thread_local int64_t place_rank = -1, place_step = -1;

bool outer_first(const RecordedSpan& a, const RecordedSpan& b) {
  return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
}

}  // namespace

void Span::begin(std::string_view name, std::string_view of, int64_t bytes) noexcept {
  name_ = name, of_ = of, bytes_ = bytes;
  if ((recorder_ & kMarked) != 0) {
    try {
      std::string whole(name);
      if (!of.empty()) whole.append(" ").append(of);
      marker.load(std::memory_order_acquire)->begin(whole.c_str());
    } catch (const std::bad_alloc&) {
      recorder_ &= ~kMarked;  // nothing has begun that were to end
    }
  }
  begin_ = nanoseconds_now();
}

void set_span_marker(const SpanMarker* next) {
  if (next == nullptr) {
    Span::listening.fetch_and(~Span::kMarked);
    return;  // spans that are under way still end at the one they began at
  }
  marker.store(next, std::memory_order_release);
  Span::listening.fetch_or(Span::kMarked);
}

void Span::record() noexcept {
  const int64_t end = nanoseconds_now();
  const uint64_t began_with = std::exchange(recorder_, 0), recorder = began_with & ~kMarked;
  if ((began_with & kMarked) != 0) marker.load(std::memory_order_acquire)->end();
  if (recorder == 0) return;
  try {
    auto& own = of_this_thread();
    const std::lock_guard lock(own.mutex);
    if ((listening.load(std::memory_order_relaxed) & ~kMarked) != recorder) return;  // its recorder is gone
    if (room.fetch_sub(1, std::memory_order_relaxed) <= 0) {
      room.fetch_add(1, std::memory_order_relaxed);
      dropped.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    std::string name(name_);
    if (!of_.empty()) name.append(" ").append(of_);
    own.spans.push_back({std::move(name), own.thread, begin_, end, bytes_, place_rank, place_step, std::string(group_),
                         std::string(ranks_), number_, stage_, micro_batch_, first_node_, end_node_});
  } catch (const std::bad_alloc&) {
    dropped.fetch_add(1, std::memory_order_relaxed);
  }
}

SpanRecorder::SpanRecorder(size_t most) {
  static std::atomic<uint64_t> made{0};
  HYPERION_CHECK(!taken_up.exchange(true), "one recorder of spans at a time");
  room = static_cast<int64_t>(most), dropped = 0;
  Span::listening.fetch_or(++made);
}

SpanRecorder::~SpanRecorder() {
  Span::listening.fetch_and(Span::kMarked);
  take();  // a thread that saw this recorder has told by now, or tells nothing
  taken_up = false;
}

RecordedSpans SpanRecorder::take() {
  RecordedSpans taken;
  auto& all = all_threads();
  {
    const std::lock_guard lock(all.mutex);
    for (const auto& thread : all.threads) {
      const std::lock_guard own(thread->mutex);
      std::move(thread->spans.begin(), thread->spans.end(), std::back_inserter(taken.spans));
      thread->spans.clear();
    }
    // It has ended, and told nothing since it was looked at.
    std::erase_if(all.threads, [](const auto& thread) { return thread.use_count() == 1 && thread->spans.empty(); });
  }
  room.fetch_add(std::ssize(taken.spans), std::memory_order_relaxed);
  taken.dropped = dropped.exchange(0, std::memory_order_relaxed);
  std::stable_sort(taken.spans.begin(), taken.spans.end(), outer_first);
  return taken;
}

SpanPlace::SpanPlace(int64_t rank, int64_t step)
    : rank_(std::exchange(place_rank, rank)), step_(std::exchange(place_step, step)) {}
SpanPlace::~SpanPlace() { place_rank = rank_, place_step = step_; }

std::string to_chrome_json(const RecordedSpans& recorded) {
  auto events = nlohmann::json::array();
  for (const auto& span : recorded.spans) {
    nlohmann::json facts = nlohmann::json::object();
    if (span.bytes > 0) facts["bytes"] = span.bytes;
    if (span.step >= 0) facts["step"] = span.step;
    events.push_back({{"ph", "X"},
                      {"name", span.name},
                      {"pid", std::max<int64_t>(span.rank, 0)},
                      {"tid", span.thread},
                      {"ts", static_cast<double>(span.begin) / 1e3},
                      {"dur", static_cast<double>(span.end - span.begin) / 1e3},
                      {"args", facts}});
  }
  return nlohmann::json{{"traceEvents", events}, {"dropped", recorded.dropped}}.dump();
}

}  // namespace hyperion::profile
