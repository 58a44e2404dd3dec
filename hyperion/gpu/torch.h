// PyTorch's own GPU parts. Its ROCm builds hold the same sources with other paths and HIP's calls inside; since 2.11
// (hipify's second version) namespaces and types keep their names there: c10::cuda::CUDAStream, at::cuda::CUDAGraph,
// C10_CUDA_CHECK, c10::kCUDA. So the paths are all that differs. A ROCm build before 2.11 calls them c10::hip::..., and
// does not compile with this.
#pragma once
#include "hyperion/gpu/runtime.h"

#ifdef HYPERION_HIP
#include <ATen/hip/HIPContext.h>
#include <ATen/hip/HIPEvent.h>
#include <ATen/hip/HIPGraph.h>
#include <c10/hip/HIPCachingAllocator.h>
#include <c10/hip/HIPFunctions.h>
#include <c10/hip/HIPGuard.h>
#include <c10/hip/HIPStream.h>
#else
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif
