#include "hyperion/bench/empty_kernel.h"

namespace hyperion::bench {
namespace {

__global__ void empty_kernel() {}

}  // namespace

void launch_empty_kernel(void* stream) { empty_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(); }

}  // namespace hyperion::bench
