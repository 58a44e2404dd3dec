// One step of every rank as boxes in lanes, for a picture: few enough to draw, whatever the number of events.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/analysis/intervals.h"
#include "hyperion/analysis/job.h"

namespace hyperion::analysis {

enum class BoxKind : uint8_t { compute, communication, memory, host, wait, input };
constexpr size_t kBoxKinds = 6;
std::string_view box_text(BoxKind kind);

struct LaneBox {
  int64_t begin = 0, end = 0;  // nanoseconds from the begin of the rank's time
  BoxKind kind = BoxKind::compute;
  uint32_t name = trace::kNoString;  // in Timeline::names of the rank; of several pieces the longest one's
  int64_t pieces = 1;                // put together, since each is too short to be seen
};

struct StepLane {
  uint32_t rank = 0;  // in Job::ranks
  std::string name;   // "stream 7"
  std::vector<LaneBox> boxes;
};

struct StepLanes {
  int64_t number = trace::kNone;  // of the ProfilerStep; kNone: the traces mark none, and it is all of them
  int64_t length = 0;             // nanoseconds, from the first rank's begin to the last one's end
  bool apart = false;  // ranks' clocks could not be put together: each begins with its own step, and `length` is the
                       // longest one's
  std::vector<Interval> times;  // of each rank, on the job's clock; where not apart all the same
  std::vector<StepLane> lanes;  // by rank; those in which something happened
  size_t left_out = 0;          // lanes beyond what can be drawn, the least busy ones of each rank
};

// Of the steps but the last the one with the median time on the first rank. What is shorter than a cell of the picture
// is put together by kind, so that boxes of a lane do not overlap and are as long as its pieces; cells are as narrow
// as `most_boxes` allows.
StepLanes step_lanes(const Job& job, size_t most_boxes = 6000, size_t most_lanes = 256);

}  // namespace hyperion::analysis
