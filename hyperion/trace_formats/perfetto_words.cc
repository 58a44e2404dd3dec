#include "hyperion/trace_formats/perfetto_words.h"

#include <algorithm>

#include "hyperion/base/format.h"

namespace hyperion::trace {
namespace {

constexpr std::string_view kByName = "by its name";

struct AmdWord {
  std::string_view word, category;
  bool common = false;  // a word that others use too
};

constexpr AmdWord kAmdWords[] = {
    {"kernel_dispatch", "kernel"},
    {"rocm_kernel_dispatch", "kernel"},
    {"memory_copy", "gpu_memcpy"},
    {"rocm_memory_copy", "gpu_memcpy"},
    {"rocm_hip_stream", kByName},
    {"device_hip", kByName},
    {"device_hsa", kByName},
    {"hip_api", "cuda_runtime"},
    {"rocm_hip_api", "cuda_runtime"},
    {"rocm_hip", "cuda_runtime"},
    {"hsa_api", "cuda_driver"},
    {"rocm_hsa_api", "cuda_driver"},
    {"rocm_hsa", "cuda_driver"},
    {"marker_api", "user_annotation"},
    {"rocm_marker_api", "user_annotation"},
    {"rocm_roctx", "user_annotation"},
    {"rccl_api", "cpu_op"},
    {"rocm_rccl_api", "cpu_op"},
    {"rccl", "cpu_op", true},
    {"mpi", "cpu_op", true},
    {"host", "cpu_op", true},
    {"user", "user_annotation", true},
    {"python", "python_function", true},
};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::string_view category_by_name(std::string_view name) {
  if (name.starts_with("MEMORY_COPY") || name.starts_with("Copy")) return "gpu_memcpy";
  if (name.starts_with("FillBuffer") || name.starts_with("MEMORY_FILL")) return "gpu_memset";
  return name.starts_with("SCRATCH_MEMORY") ? std::string_view() : "kernel";
}

std::string_view direction(std::string_view name) {
  if (contains(name, "HOST_TO_DEVICE") || contains(name, "HostToDevice")) return "HtoD";
  if (contains(name, "DEVICE_TO_HOST") || contains(name, "DeviceToHost")) return "DtoH";
  if (contains(name, "DEVICE_TO_DEVICE") || contains(name, "DeviceToDevice")) return "DtoD";
  if (contains(name, "HOST_TO_HOST") || contains(name, "HostToHost")) return "HtoH";
  return {};
}

}  // namespace

std::string_view kineto_category(std::string_view category, std::string_view name, bool of_sdk) {
  const auto* found = std::find_if(std::begin(kAmdWords), std::end(kAmdWords),
                                   [&](const AmdWord& known) { return known.word == category; });
  if (found == std::end(kAmdWords) || (found->common && !of_sdk)) return {};
  return found->category == kByName ? category_by_name(name) : found->category;
}

std::string kineto_name(std::string_view category, std::string_view name) {
  const auto way = direction(name);
  if (category == "gpu_memcpy" && !name.starts_with("Memcpy"))
    return way.empty() ? base::format("Memcpy ({})", name) : base::format("Memcpy {} ({})", way, name);
  if (category == "gpu_memset" && !name.starts_with("Memset")) return base::format("Memset ({})", name);
  return std::string(name);
}

}  // namespace hyperion::trace
