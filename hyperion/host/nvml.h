// NVIDIA's management library, as far as we ask it. Our own declarations of its C interface; 0 is success everywhere.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "hyperion/host/gpu_facts.h"
#include "hyperion/host/gpu_vitals.h"

namespace hyperion::host {

constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlUse {
  unsigned gpu, memory;  // percent of the time
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
  int (*device_at_pci)(const char*, Device*) = nullptr;
  int (*use)(Device, NvmlUse*) = nullptr;
  int (*energy)(Device, unsigned long long* millijoules) = nullptr;
  int (*slowed_by)(Device, unsigned long long* reasons) = nullptr;
};

// Nothing and the reason where the library is absent or lacks a function that is always needed.
std::optional<Nvml> load_nvml(const char* library, std::string& reason);

GpuSurvey survey_nvidia(const Nvml& nvml);

// Of the one at this place. Null where it has none there, or does not start.
std::unique_ptr<GpuReader> nvidia_reader(const Nvml& nvml, const std::string& pci);

}  // namespace hyperion::host
