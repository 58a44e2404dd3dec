// CUDA and HIP under one set of names; for .cu files only.
#pragma once
#ifdef __HIPCC__
#include <hip/hip_runtime.h>
#else
#include <cuda_runtime.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>

#include "hyperion/gpu/runtime.h"

namespace hyperion::device {

using GpuStream = gpu::Stream;

inline const char* last_gpu_error() {
  const gpu::Error error = gpu::get_last_error();
  return error == gpu::kSuccess ? nullptr : gpu::get_error_string(error);
}

inline void check_launch(const char* kernel) {
  if (const char* error = last_gpu_error()) {
    char text[256];
    std::snprintf(text, sizeof text, "GPU kernel %s could not be launched: %s", kernel, error);
    throw std::runtime_error(text);
  }
}

// What kernels are laid out by: of the device this thread works on, asked once.
struct GpuLimits {
  int multiprocessors;
  int shared_bytes;  // that a block may ask for, the kernel's own included
  int capability;    // 90 for 9.0; 0 on AMD's
};

inline GpuLimits ask_gpu_limits(int device) {
  GpuLimits limits{};
#ifdef __HIPCC__
  (void)hipDeviceGetAttribute(&limits.multiprocessors, hipDeviceAttributeMultiprocessorCount, device);
  (void)hipDeviceGetAttribute(&limits.shared_bytes, hipDeviceAttributeMaxSharedMemoryPerBlock, device);
#else
  int major = 0, minor = 0;
  cudaDeviceGetAttribute(&limits.multiprocessors, cudaDevAttrMultiProcessorCount, device);
  cudaDeviceGetAttribute(&limits.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  limits.capability = 10 * major + minor;
#endif
  if (limits.multiprocessors < 1) throw std::runtime_error("the GPU does not tell how many multiprocessors it has");
  return limits;
}

inline const GpuLimits& gpu_limits() {
  thread_local GpuLimits limits{};
  thread_local int known = -1;
  int device = 0;
  (void)gpu::get_device(&device);
  if (device != known) limits = ask_gpu_limits(device), known = device;
  return limits;
}

// More than 48 KiB of shared memory a block, the kernel's own included, must be asked for; AMD's blocks have 64 KiB
// without asking.
inline void allow_shared_memory([[maybe_unused]] const void* kernel, [[maybe_unused]] size_t bytes) {
#ifndef __HIPCC__
  if (bytes > (40 << 10))
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
#endif
}

// A kernel launched so may begin before the one ahead of it in the stream has ended: as soon as each of that one's
// blocks has called `let_next_begin` or ended. What that one writes it must not touch before `wait_for_one_ahead`.
// On GPUs that cannot (before 9.0, and AMD's) it begins when the one ahead has ended.
template <class... Parameters>
void launch_overlapping(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, size_t shared_bytes, GpuStream stream,
                        Parameters... arguments) {
#ifdef __HIPCC__
  kernel<<<blocks, threads, shared_bytes, stream>>>(arguments...);
#else
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks, config.blockDim = threads, config.stream = stream;
  config.dynamicSmemBytes = shared_bytes;
  config.attrs = &overlap, config.numAttrs = gpu_limits().capability >= 90 ? 1 : 0;
  cudaLaunchKernelEx(&config, kernel, arguments...);
#endif
}
__device__ inline void let_next_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ inline void wait_for_one_ahead() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Enough blocks to fill any GPU, few enough that each thread does some work; kernels loop by the grid's size.
inline unsigned grid_for(int64_t elements, int threads) {
  const int64_t blocks = (elements + threads - 1) / threads;
  return static_cast<unsigned>(blocks < 4096 ? blocks : 4096);
}

}  // namespace hyperion::device
