// c10d's header shows Gloo only where this is defined; the code is in libtorch_cpu.
#define USE_C10D_GLOO
#include "hyperion/comm/versions.h"

#include <ATen/Version.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <torch/headeronly/version.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <chrono>
#include <exception>

#include "hyperion/base/format.h"

namespace hyperion::comm {
namespace {

constexpr std::chrono::seconds kGlooTimeout{10};

// LibTorch has no function for its own version; its build settings name it: "..., TORCH_VERSION=2.11.0, ...".
std::string loaded_torch_version() {
  const std::string settings = at::show_config();
  const std::string key = "TORCH_VERSION=";
  const size_t at = settings.find(key);
  if (at == std::string::npos) return {};
  const size_t first = at + key.size();
  return settings.substr(first, settings.find_first_of(", \n", first) - first);
}

// The first line of what c10 says; the rest is its call stack.
using base::first_line;

float all_reduce_alone() {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto options = c10d::ProcessGroupGloo::Options::create(kGlooTimeout);
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  const auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(store, 0, 1, options);
  std::vector<at::Tensor> tensors{at::full({16}, 3.0f)};
  group->allreduce(tensors)->wait();
  return tensors[0].sum().item<float>();
}

}  // namespace

Versions library_versions() {
  Versions versions;
  versions.torch = {"LibTorch", TORCH_VERSION, loaded_torch_version()};
  versions.cpu_capability = at::get_cpu_capability();
  versions.gpu_form = built_for_gpu();
  versions.gpu_libraries = gpu_library_versions();
  return versions;
}

std::string gloo_fault() {
  try {
    const float sum = all_reduce_alone();
    return sum == 48.0f ? "" : base::format("an all-reduce of 16 threes gave {}, not 48", sum);
  } catch (const std::exception& error) {
    return first_line(error.what());
  }
}

}  // namespace hyperion::comm
