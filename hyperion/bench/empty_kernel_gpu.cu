#include "hyperion/bench/empty_kernel.h"
#include "hyperion/device/gpu_runtime.h"

namespace hyperion::bench {
namespace {

__global__ void empty_kernel() {}

}  // namespace

void launch_empty_kernel(void* stream) { empty_kernel<<<1, 1, 0, static_cast<device::GpuStream>(stream)>>>(); }

}  // namespace hyperion::bench
