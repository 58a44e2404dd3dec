// Events that last, in the form in which viewers take them: on one lane each begins inside of another or behind it.
#pragma once
#include <cstdint>
#include <vector>

namespace hyperion::trace {

struct LastingEvent {
  int64_t begin = 0, end = 0;
  uint64_t event = 0;  // its number
};

struct SliceMark {
  int64_t time = 0;
  uint64_t event = 0;
  bool opens = false;  // else the one that was opened last on its lane ends
};

// A list of marks for each lane that is needed, in the order of time. What overlaps without one holding the other goes
// onto the next lane. Of events with the same begin the longer one holds the others; of equal ones the one that stands
// first.
std::vector<std::vector<SliceMark>> nested_lanes(std::vector<LastingEvent> events);

}  // namespace hyperion::trace
