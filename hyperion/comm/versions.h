// Versions of the libraries under us, as built against and as loaded now, and whether they work here. Free of torch, so
// that any folder may ask.
#pragma once
#include <string>
#include <vector>

namespace hyperion::comm {

struct LibraryVersion {
  std::string name;    // "LibTorch", "CUDA runtime", "cuDNN", "NCCL" (in ROCm builds of LibTorch: "RCCL")
  std::string built;   // what LibTorch (of LibTorch: what we) was compiled with; empty: not told
  std::string loaded;  // what answers in this process; empty: absent
};

struct Versions {
  LibraryVersion torch;
  std::string cpu_capability;  // the vector set LibTorch's own kernels picked: "AVX512", "SVE256", "DEFAULT"
  bool gpu_form = false;       // this program was built with its GPU kernels
  std::vector<LibraryVersion> gpu_libraries;  // empty without the GPU form
};

// Cheap: starts no GPU context.
Versions library_versions();

// Makes a Gloo group of one process on 127.0.0.1 and all-reduces a tensor over it. Empty where that works, else why
// not.
std::string gloo_fault();

struct GpuUse {
  int count = 0;      // devices LibTorch sees, after CUDA_VISIBLE_DEVICES
  std::string fault;  // empty: a sum on every one of them came out right, or there is none
};
// Starts a context on each GPU: half a second the first time.
GpuUse try_gpus();

// What versions_gpu.cc or its stub fills in.
std::vector<LibraryVersion> gpu_library_versions();
bool built_for_gpu();

}  // namespace hyperion::comm
