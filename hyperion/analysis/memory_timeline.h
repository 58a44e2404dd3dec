// Who held memory when: from what a profiler recorded of allocations (Kineto's [memory] events, `profile_memory`).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hyperion/base/json.h"
#include "hyperion/trace/trace.h"

namespace hyperion::analysis {

// What was held by blocks that were allocated in one place.
struct MemoryHolder {
  std::string name;  // "forward, block transformer.h.3, aten::addmm"; kHeldBefore
  int64_t bytes = 0, blocks = 0;
};
inline constexpr const char* kHeldBefore = "before the recording: weights, optimizer, gradients";

struct MemoryPoint {
  int64_t time = 0;  // nanoseconds since the first
  int64_t bytes = 0;
};

// Of one device.
struct MemoryTimeline {
  bool gpu = false;
  int64_t device = trace::kNone;                       // its number; a CPU has none
  int64_t allocations = 0;                             // of the recording
  int64_t held_before = 0, held_after = 0;             // bytes, where it begins and ends
  int64_t peak = 0, peak_time = 0, peak_reserved = 0;  // allocated; when; the most that the allocator had taken
  std::string peak_place;                              // by whom it was reached
  std::vector<MemoryHolder> holders;                   // at the peak, the most first; they add up to it
  std::vector<MemoryPoint> points;                     // at most kMostPoints, each the most of its stretch
};
constexpr size_t kMostPoints = 400;

// By device, CPUs first. Empty where allocations were not recorded. Throws CorruptError where sizes cannot be.
std::vector<MemoryTimeline> memory_timelines(const trace::Trace& trace);

base::Json memory_json(const std::vector<MemoryTimeline>& timelines, size_t top);

}  // namespace hyperion::analysis
