// What work takes on a GPU.
#pragma once
#include <c10/core/Device.h>

#include <functional>

namespace hyperion::device {

// Microseconds of the GPU alone, by replays of a graph: what launching costs the host is not what a recorded step pays.
// Throws what the work throws; not while something is recorded.
double microseconds_of(c10::Device device, const std::function<void()>& work);

}  // namespace hyperion::device
