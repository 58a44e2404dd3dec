// What only a GPU build has, for sources that every build compiles. Streams travel as void*.
#pragma once
#include <type_traits>

namespace hyperion::device {

#ifdef HYPERION_WITH_CUDA
inline constexpr bool kGpuBuild = true;
#else
inline constexpr bool kGpuBuild = false;
#endif

// The stream that work on this device is queued on now; null without a GPU build.
void* current_gpu_stream(int device);

[[noreturn]] void no_gpu_kernels();

// What `work` gives, which may name functions of .cu files: in a build without them nothing asks the linker for those,
// and it throws.
template <class Work>
std::invoke_result_t<Work> on_gpu(const Work& work) {
  if constexpr (kGpuBuild)
    return work();
  else
    no_gpu_kernels();
}

}  // namespace hyperion::device
