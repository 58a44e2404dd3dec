// What the .cu files share: one source for CUDA and HIP, raw pointers only. Streams travel as void*.
#pragma once
#include <cstdint>

namespace hyperion::kernels {

// The stream that work on this device is queued on now; null without a GPU build.
void* current_gpu_stream(int device);

// What every entry point does in a build without them.
[[noreturn]] void no_gpu_kernels();

}  // namespace hyperion::kernels
