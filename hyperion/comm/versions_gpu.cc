#include <ATen/core/Tensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/full.h>
#include <dlfcn.h>

#include <cstdint>
#include <exception>

#include "hyperion/base/format.h"
#include "hyperion/comm/versions.h"
#include "hyperion/gpu/torch.h"

// Declared in torch/csrc/cuda/nccl.h, which pulls in all of ATen. Major, minor and patch in 16 bits each from bit 32
// down.
namespace torch::cuda::nccl {
std::uint64_t version();
}

namespace hyperion::comm {
namespace {

std::string runtime_text(long version) {
  return version <= 0
             ? ""
             : base::format("{}.{}", version / gpu::kMajorVersion, version % gpu::kMajorVersion / gpu::kMinorVersion);
}

// 91002 is 9.10.2; before 9 a digit fewer: 8907 is 8.9.7.
std::string cudnn_text(long version) {
  const long major = version >= 90000 ? 10000 : 1000;
  return version <= 0 ? "" : base::format("{}.{}.{}", version / major, version % major / 100, version % 100);
}

std::string nccl_loaded() {  // RCCL's functions are called as NCCL's are
  using GetVersion = int(int*);
  auto* const get = reinterpret_cast<GetVersion*>(::dlsym(RTLD_DEFAULT, "ncclGetVersion"));
  int version = 0;
  if (get == nullptr || get(&version) != 0) return {};
  return base::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string nccl_built() {
  const std::uint64_t version = torch::cuda::nccl::version();
  return base::format("{}.{}.{}", version >> 32, version >> 16 & 0xffff, version & 0xffff);
}

// A question LibTorch answers by throwing where it was built without the library.
template <class Question>
std::string version_told(Question question) {
  try {
    return question();
  } catch (const std::exception&) {
    return {};
  }
}

void check_sum(int device) {
  const auto tensor = at::full({16}, 3.0f, at::TensorOptions().device(at::Device(at::kCUDA, device)));
  const float sum = tensor.sum().item<float>();
  TORCH_CHECK(sum == 48.0f, "a sum of 16 threes gave ", sum, ", not 48");
}

}  // namespace

bool built_for_gpu() { return true; }

std::vector<LibraryVersion> gpu_library_versions() {
  const auto& hooks = at::detail::getCUDAHooks();
  int runtime = 0;
  if (gpu::runtime_get_version(&runtime) != gpu::kSuccess) runtime = 0;
  const LibraryVersion own{gpu::kRuntimeName, version_told([&] { return runtime_text(hooks.versionCUDART()); }),
                           runtime_text(runtime)};
  const LibraryVersion collectives{gpu::kHip ? "RCCL" : "NCCL", version_told(nccl_built), nccl_loaded()};
  if constexpr (gpu::kHip) return {own, collectives};
  return {own,
          {"cuDNN", version_told([&] { return cudnn_text(hooks.versionCuDNN()); }),
           version_told([&] { return cudnn_text(hooks.versionRuntimeCuDNN()); })},
          collectives};
}

GpuUse try_gpus() {
  GpuUse use;
  try {
    use.count = c10::cuda::device_count_ensure_non_zero();
  } catch (const std::exception& error) {
    const std::string words = error.what();
    use.fault = words.substr(0, words.find('\n'));
    return use;
  }
  for (int device = 0; device < use.count; ++device) {
    try {
      check_sum(device);
    } catch (const std::exception& error) {
      const std::string words = error.what();
      use.fault = base::format("GPU {}: {}", device, words.substr(0, words.find('\n')));
      return use;
    }
  }
  return use;
}

}  // namespace hyperion::comm
