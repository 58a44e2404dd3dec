// Which of several candidates to do the same work is the fastest on a GPU that is kept busy.
//
// Under load a GPU runs at the clock its power allows, and that follows what ran in the last tenths of a second:
// candidates that are timed one after the other are timed at different clocks. So they take turns, without a pause.
#pragma once
#include <functional>
#include <vector>

#include "hyperion/gpu/runtime.h"

namespace hyperion::device {

// Queues the work once; false where it cannot.
using Candidate = std::function<bool(gpu::Stream)>;

constexpr float kNever = 1e30f;

// Microseconds of each; kNever of those that cannot, and of those far behind the fastest, but for the first. By replays
// of a graph, since launching short work takes longer than doing it. What was queued before must be done.
std::vector<float> times_in_turns(const std::vector<Candidate>& candidates);

}  // namespace hyperion::device
