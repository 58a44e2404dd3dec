// What is known of the graphics processors of this machine.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hyperion::host {

enum class GpuVendor { nvidia, amd };

// What the library did not tell is nothing, never a made-up zero.
struct Gpu {
  int index = 0;  // the library's own, before CUDA_VISIBLE_DEVICES
  GpuVendor vendor = GpuVendor::nvidia;
  std::string name = "unknown", uuid, driver;            // driver: "580.65.06"; empty: unknown
  std::optional<int> cuda_driver;                        // the newest CUDA that the driver carries: 13000 is 13.0
  std::optional<uint64_t> memory_total, memory_used;     // bytes
  std::optional<int> temperature, slowdown_temperature;  // degrees Celsius
  std::optional<double> power, power_limit;              // watts
  std::optional<int> sm_clock, memory_clock;             // MHz, now
  std::optional<int> pcie_generation, pcie_generation_max, pcie_width, pcie_width_max;
  std::optional<int> links;  // active NVLinks, or peers over xGMI
};

struct GpuSurvey {
  std::vector<Gpu> gpus;
  // One a vendor whose library gave nothing, and why: "libnvidia-ml.so.1 not found".
  std::vector<std::string> absent;
  bool telemetry = false;  // some vendor's library answered, with or without GPUs
};

}  // namespace hyperion::host
