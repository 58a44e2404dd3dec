#include "hyperion/doctor/gpu_checks.h"

#include <cmath>
#include <cstdlib>

#include "hyperion/base/format.h"

namespace hyperion::doctor {
namespace {

constexpr int kHotNvidia = 85,
              kHotAmd = 95;  // degrees, where the card does not tell its own limit; AMD's is the junction
constexpr int kMarginBelowSlowdown = 5;
constexpr double kMuchMemory = 0.25;  // of the card, held by someone else

std::string joined_parts(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

int hot_from(const host::Gpu& gpu) {
  if (gpu.slowdown_temperature) return *gpu.slowdown_temperature - kMarginBelowSlowdown;
  return gpu.vendor == host::GpuVendor::amd ? kHotAmd : kHotNvidia;
}

bool driver_too_old(const host::Gpu& gpu, const std::string& cuda_built) {
  // Within one major version a newer runtime works on an older driver.
  return gpu.cuda_driver && !cuda_built.empty() && *gpu.cuda_driver / 1000 < std::atoi(cuda_built.c_str());
}

std::string pcie_text(const host::Gpu& gpu) {
  const auto number = [](const std::optional<int>& value) { return value ? std::to_string(*value) : "?"; };
  return base::format("PCIe gen {} x{} (max gen {} x{})", number(gpu.pcie_generation), number(gpu.pcie_width),
                      number(gpu.pcie_generation_max), number(gpu.pcie_width_max));
}

std::string describe(const host::Gpu& gpu) {
  std::vector<std::string> facts;
  if (gpu.memory_total)
    facts.push_back(gpu.memory_used ? base::format("{} used of {}", base::bytes_text(*gpu.memory_used),
                                                   base::bytes_text(*gpu.memory_total))
                                    : base::bytes_text(*gpu.memory_total));
  if (gpu.temperature) facts.push_back(base::format("{} C", *gpu.temperature));
  if (gpu.power)
    facts.push_back(gpu.power_limit ? base::format("{:.0f} of {:.0f} W", *gpu.power, *gpu.power_limit)
                                    : base::format("{:.0f} W", *gpu.power));
  if (gpu.sm_clock) facts.push_back(base::format("SM {} MHz", *gpu.sm_clock));
  if (gpu.memory_clock) facts.push_back(base::format("memory {} MHz", *gpu.memory_clock));
  if (gpu.pcie_width || gpu.pcie_generation) facts.push_back(pcie_text(gpu));
  if (gpu.links)
    facts.push_back(gpu.vendor == host::GpuVendor::amd ? base::format("xGMI to {} peers", *gpu.links)
                                                       : base::format("NVLink {} active", *gpu.links));
  if (!gpu.driver.empty()) facts.push_back("driver " + gpu.driver);
  if (gpu.cuda_driver)
    facts.push_back(base::format("up to CUDA {}.{}", *gpu.cuda_driver / 1000, *gpu.cuda_driver % 1000 / 10));
  std::string text = gpu.name;
  for (const std::string& fact : facts) text += ", " + fact;
  return text;
}

}  // namespace

Check check_gpu(const host::Gpu& gpu, const std::string& cuda_built) {
  Check check{base::format("gpu {}", gpu.index), kGpuGroup, Verdict::ok, describe(gpu), ""};
  std::vector<std::string> hints;
  if (driver_too_old(gpu, cuda_built))
    hints.push_back(base::format("the driver is too old for CUDA {} of LibTorch: install a newer driver", cuda_built));
  if (gpu.temperature && *gpu.temperature >= hot_from(gpu))
    hints.push_back(base::format("{} C is hot, clocks will fall: check fans and air flow", *gpu.temperature));
  if (gpu.pcie_width && gpu.pcie_width_max && *gpu.pcie_width < *gpu.pcie_width_max)
    hints.push_back(base::format("PCIe runs at x{} of x{}: reseat the card or check its slot and riser",
                                 *gpu.pcie_width, *gpu.pcie_width_max));
  if (gpu.memory_used && gpu.memory_total &&
      static_cast<double>(*gpu.memory_used) > kMuchMemory * static_cast<double>(*gpu.memory_total))
    hints.push_back(base::format("other processes hold {}: {} shows which", base::bytes_text(*gpu.memory_used),
                                 gpu.vendor == host::GpuVendor::amd ? "rocm-smi --showpids" : "nvidia-smi"));
  if (!hints.empty()) check.verdict = Verdict::warn, check.hint = joined_parts(hints);
  return check;
}

Check check_no_gpu(const host::GpuSurvey& survey, bool gpu_form) {
  Check check{"gpu", kGpuGroup, Verdict::ok, "none", ""};
  if (!survey.absent.empty()) check.finding += ": " + joined_parts(survey.absent);
  if (gpu_form) {
    check.verdict = Verdict::warn;
    check.hint = "this program was built for GPUs: install the driver, or train with --device cpu";
  }
  return check;
}

Check check_gpu_use(const host::GpuSurvey& survey, const comm::GpuUse& use, bool gpu_form,
                    const char* visible_devices) {
  const bool hidden = visible_devices != nullptr && (*visible_devices == '\0' || std::string(visible_devices) == "-1");
  Check check{"gpu in LibTorch", kGpuGroup, Verdict::ok, "", ""};
  if (!gpu_form) {
    check.finding = "off: this program was built for the CPU only";
    if (!survey.gpus.empty()) {
      check.verdict = Verdict::warn;
      check.hint = "build the GPU form: cmake --preset cuda && cmake --build --preset cuda";
    }
  } else if (use.count > 0 && use.fault.empty()) {
    check.finding = base::format("{} usable, a sum on each came out right", use.count);
  } else if (use.count == 0 && (survey.gpus.empty() || hidden)) {
    check.finding = hidden ? "off: CUDA_VISIBLE_DEVICES hides every GPU" : "off: no GPU here";
  } else {
    check.verdict = Verdict::fail;
    check.finding = use.fault.empty() ? "LibTorch sees none of the GPUs" : use.fault;
    check.hint = "check CUDA_VISIBLE_DEVICES and that the driver fits the CUDA of LibTorch, or train with --device cpu";
  }
  return check;
}

}  // namespace hyperion::doctor
