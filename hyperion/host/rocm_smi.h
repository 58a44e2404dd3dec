// AMD's management library, as far as we ask it. Our own declarations of its C interface; 0 is success everywhere.
// Clocks and PCIe are read from /sys: the library's structures for them changed shape between versions.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "hyperion/base/files.h"
#include "hyperion/host/gpu_facts.h"
#include "hyperion/host/gpu_vitals.h"

namespace hyperion::host {

// Without the development package only a numbered name is there, and ROCm lies out of the loader's path.
inline constexpr const char* kRocmSmiLibraries[] = {"librocm_smi64.so", "librocm_smi64.so.7", "librocm_smi64.so.1",
                                                    "/opt/rocm/lib/librocm_smi64.so",
                                                    "/opt/rocm/lib/librocm_smi64.so.7"};

// One pointer a function of the library. The first three are always there; another may be null, then its fact is
// unknown.
struct RocmSmi {
  int (*init)(uint64_t flags) = nullptr;
  int (*shutdown)() = nullptr;
  int (*device_count)(uint32_t*) = nullptr;
  int (*name)(uint32_t, char*, size_t) = nullptr;
  int (*unique_id)(uint32_t, uint64_t*) = nullptr;
  int (*pci_id)(uint32_t, uint64_t*) = nullptr;
  int (*driver_version)(int component, char*, uint32_t) = nullptr;
  int (*memory_total)(uint32_t, int kind, uint64_t*) = nullptr;
  int (*memory_used)(uint32_t, int kind, uint64_t*) = nullptr;
  int (*temperature)(uint32_t, uint32_t sensor, int metric, int64_t* millidegrees) = nullptr;
  int (*power)(uint32_t, uint64_t* microwatts, int* kind) = nullptr;
  int (*power_average)(uint32_t, uint32_t sensor, uint64_t* microwatts) = nullptr;  // where `power` is not there yet
  int (*power_limit)(uint32_t, uint32_t sensor, uint64_t* microwatts) = nullptr;
  int (*link_type)(uint32_t from, uint32_t to, uint64_t* hops, int* kind) = nullptr;
  int (*busy)(uint32_t, uint32_t* percent) = nullptr;
  int (*energy)(uint32_t, uint64_t* counted, float* microjoules_each, uint64_t* nanoseconds) = nullptr;
};

// Nothing and the reason where the library is absent or lacks a function that is always needed.
std::optional<RocmSmi> load_rocm_smi(const char* library, std::string& reason);

GpuSurvey survey_amd(const RocmSmi& rocm, const base::Path& root = "/");

// Of the one at this place. Null where it has none there, or does not start. What slows it is not told.
std::unique_ptr<GpuReader> amd_reader(const RocmSmi& rocm, const std::string& pci, const base::Path& root = "/");

}  // namespace hyperion::host
