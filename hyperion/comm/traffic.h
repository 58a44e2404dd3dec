// What a group has moved, by operation and caller. Times of calls on a GPU are the device's own, read once it is done.
#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace hyperion::comm {

// Of one operation for one caller.
struct Traffic {
  int64_t calls = 0;
  int64_t bytes = 0;   // that this rank sent
  double seconds = 0;  // under way; of calls that a graph replays nothing is known
  double exposed = 0;  // that a caller, or the work it has queued on a GPU, waited
  Traffic& operator+=(const Traffic& other) {
    calls += other.calls, bytes += other.bytes, seconds += other.seconds, exposed += other.exposed;
    return *this;
  }
};

using TrafficByCaller = std::map<std::string, Traffic>;  // "all_gather weights" -> what it moved

}  // namespace hyperion::comm
