// NVIDIA's management library, as far as we ask it. Our own declarations of its C interface; 0 is success everywhere.
#pragma once
#include <optional>
#include <string>

#include "hyperion/host/gpu_facts.h"

namespace hyperion::host {

constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

struct NvmlMemory {
  unsigned long long total, free, used;
};

// One pointer a function of the library. The first five are always there; another may be null, then its fact is
// unknown. Tests fill in their own.
struct Nvml {
  using Device = void*;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_text)(int) = nullptr;
  int (*device_count)(unsigned*) = nullptr;
  int (*device_at)(unsigned, Device*) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*cuda_driver_version)(int*) = nullptr;
  int (*name)(Device, char*, unsigned) = nullptr;
  int (*uuid)(Device, char*, unsigned) = nullptr;
  int (*memory)(Device, NvmlMemory*) = nullptr;
  int (*temperature)(Device, int sensor, unsigned*) = nullptr;
  int (*temperature_threshold)(Device, int kind, unsigned*) = nullptr;
  int (*power_usage)(Device, unsigned* milliwatts) = nullptr;
  int (*power_limit)(Device, unsigned* milliwatts) = nullptr;
  int (*clock)(Device, int kind, unsigned* megahertz) = nullptr;
  int (*pcie_generation)(Device, unsigned*) = nullptr;
  int (*pcie_generation_max)(Device, unsigned*) = nullptr;
  int (*pcie_width)(Device, unsigned*) = nullptr;
  int (*pcie_width_max)(Device, unsigned*) = nullptr;
  int (*nvlink_state)(Device, unsigned link, int* active) = nullptr;
};

// Nothing and the reason where the library is absent or lacks a function that is always needed.
std::optional<Nvml> load_nvml(const char* library, std::string& reason);

GpuSurvey survey_nvidia(const Nvml& nvml);

}  // namespace hyperion::host
