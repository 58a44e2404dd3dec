#include "hyperion/host/nvml.h"

#include "hyperion/base/format.h"
#include "hyperion/host/dynamic_library.h"

namespace hyperion::host {
namespace {

// Values of the library's enumerations.
constexpr int kGpuSensor = 0, kSlowdownThreshold = 1, kSmClock = 1, kMemoryClock = 2;
constexpr unsigned kMostLinks = 18;
constexpr unsigned long long kPowerCap = 0x4, kSlowdown = 0x8, kSoftHeat = 0x20, kHardHeat = 0x40, kPowerBrake = 0x80;
constexpr int kLeastLimit = 50, kMostLimit = 120;  // degrees; cards of later make answer with offsets instead

// A fact that the library may refuse, or not know how to tell.
template <class Function, class... Arguments>
std::optional<int> ask(Function function, Arguments... arguments) {
  unsigned value = 0;
  if (function == nullptr || function(arguments..., &value) != 0) return std::nullopt;
  return static_cast<int>(value);
}

template <class Function>
std::optional<double> ask_watts(Function function, Nvml::Device device) {
  const auto milliwatts = ask(function, device);
  return milliwatts ? std::optional<double>(*milliwatts / 1000.0) : std::nullopt;
}

template <class Function>
std::string ask_text(Function function, Nvml::Device device) {
  char text[128] = {};
  return function != nullptr && function(device, text, sizeof text) == 0 ? text : "";
}

std::optional<int> active_links(const Nvml& nvml, Nvml::Device device) {
  if (nvml.nvlink_state == nullptr) return std::nullopt;
  int active = 0;
  bool told = false;
  for (unsigned link = 0; link < kMostLinks; ++link) {
    int state = 0;
    if (nvml.nvlink_state(device, link, &state) != 0) continue;
    told = true;
    active += state == 1 ? 1 : 0;
  }
  return told ? std::optional<int>(active) : std::nullopt;
}

Gpu describe(const Nvml& nvml, int index, Nvml::Device device) {
  Gpu gpu;
  gpu.index = index;
  gpu.vendor = GpuVendor::nvidia;
  if (const std::string name = ask_text(nvml.name, device); !name.empty()) gpu.name = name;
  gpu.uuid = ask_text(nvml.uuid, device);
  NvmlMemory memory{};
  if (nvml.memory != nullptr && nvml.memory(device, &memory) == 0)
    gpu.memory_total = memory.total, gpu.memory_used = memory.used;
  gpu.temperature = ask(nvml.temperature, device, kGpuSensor);
  gpu.slowdown_temperature = ask(nvml.temperature_threshold, device, kSlowdownThreshold);
  if (gpu.slowdown_temperature && (*gpu.slowdown_temperature < kLeastLimit || *gpu.slowdown_temperature > kMostLimit))
    gpu.slowdown_temperature.reset();
  gpu.power = ask_watts(nvml.power_usage, device);
  gpu.power_limit = ask_watts(nvml.power_limit, device);
  gpu.sm_clock = ask(nvml.clock, device, kSmClock);
  gpu.memory_clock = ask(nvml.clock, device, kMemoryClock);
  gpu.pcie_generation = ask(nvml.pcie_generation, device);
  gpu.pcie_generation_max = ask(nvml.pcie_generation_max, device);
  gpu.pcie_width = ask(nvml.pcie_width, device);
  gpu.pcie_width_max = ask(nvml.pcie_width_max, device);
  gpu.links = active_links(nvml, device);
  return gpu;
}

Slowed slowed_of(unsigned long long reasons) {
  if ((reasons & (kSoftHeat | kHardHeat)) != 0) return Slowed::heat;
  if ((reasons & (kPowerCap | kPowerBrake)) != 0) return Slowed::power;
  return (reasons & kSlowdown) != 0 ? Slowed::hardware : Slowed::nothing;
}

std::optional<double> as_double(std::optional<int> value) {
  return value ? std::optional<double>(*value) : std::nullopt;
}

class NvidiaReader final : public GpuReader {
 public:
  NvidiaReader(const Nvml& nvml, Nvml::Device device) : nvml_(nvml), device_(device) {}
  ~NvidiaReader() override { nvml_.shutdown(); }
  NvidiaReader(const NvidiaReader&) = delete;
  NvidiaReader& operator=(const NvidiaReader&) = delete;

  GpuVitals read() override {
    GpuVitals vitals;
    vitals.clock = as_double(ask(nvml_.clock, device_, kSmClock));
    vitals.temperature = as_double(ask(nvml_.temperature, device_, kGpuSensor));
    vitals.power = ask_watts(nvml_.power_usage, device_);
    NvmlUse use{};
    if (nvml_.use != nullptr && nvml_.use(device_, &use) == 0) vitals.busy = use.gpu;
    unsigned long long value = 0;
    if (nvml_.energy != nullptr && nvml_.energy(device_, &value) == 0) vitals.energy = static_cast<double>(value) / 1e3;
    if (nvml_.slowed_by != nullptr && nvml_.slowed_by(device_, &value) == 0) vitals.slowed = slowed_of(value);
    return vitals;
  }

 private:
  Nvml nvml_;
  Nvml::Device device_;
};

std::string failure(const Nvml& nvml, const char* doing, int code) {
  const char* words = nvml.error_text == nullptr ? nullptr : nvml.error_text(code);
  return base::format("NVML {}: {}", doing, words == nullptr ? base::format("error {}", code) : words);
}

GpuSurvey survey_open(const Nvml& nvml) {
  GpuSurvey survey;
  unsigned count = 0;
  if (const int code = nvml.device_count(&count); code != 0) {
    survey.absent.push_back(failure(nvml, "cannot count GPUs", code));
    return survey;
  }
  survey.telemetry = true;
  char driver[96] = {};
  const bool driver_told = nvml.driver_version != nullptr && nvml.driver_version(driver, sizeof driver) == 0;
  int cuda = 0;
  const bool cuda_told = nvml.cuda_driver_version != nullptr && nvml.cuda_driver_version(&cuda) == 0;
  for (unsigned index = 0; index < count; ++index) {
    Nvml::Device device = nullptr;
    if (const int code = nvml.device_at(index, &device); code != 0) {
      survey.absent.push_back(failure(nvml, base::format("cannot open GPU {}", index).c_str(), code));
      continue;
    }
    Gpu gpu = describe(nvml, static_cast<int>(index), device);
    if (driver_told) gpu.driver = driver;
    if (cuda_told) gpu.cuda_driver = cuda;
    survey.gpus.push_back(std::move(gpu));
  }
  if (count == 0) survey.absent.emplace_back("NVML answers, but sees no NVIDIA GPU");
  return survey;
}

}  // namespace

std::optional<Nvml> load_nvml(const char* library, std::string& reason) {
  const DynamicLibrary loaded(library);
  if (!loaded.loaded()) {
    reason = loaded.reason();
    return std::nullopt;
  }
  Nvml nvml;
  const bool whole = loaded.find("nvmlInit_v2", nvml.init) && loaded.find("nvmlShutdown", nvml.shutdown) &&
                     loaded.find("nvmlErrorString", nvml.error_text) &&
                     loaded.find("nvmlDeviceGetCount_v2", nvml.device_count) &&
                     loaded.find("nvmlDeviceGetHandleByIndex_v2", nvml.device_at);
  if (!whole) {
    reason = base::format("{} lacks functions every NVML has", library);
    return std::nullopt;
  }
  loaded.find("nvmlSystemGetDriverVersion", nvml.driver_version);
  loaded.find("nvmlSystemGetCudaDriverVersion_v2", nvml.cuda_driver_version);
  loaded.find("nvmlDeviceGetName", nvml.name);
  loaded.find("nvmlDeviceGetUUID", nvml.uuid);
  loaded.find("nvmlDeviceGetMemoryInfo", nvml.memory);
  loaded.find("nvmlDeviceGetTemperature", nvml.temperature);
  loaded.find("nvmlDeviceGetTemperatureThreshold", nvml.temperature_threshold);
  loaded.find("nvmlDeviceGetPowerUsage", nvml.power_usage);
  loaded.find("nvmlDeviceGetEnforcedPowerLimit", nvml.power_limit);
  loaded.find("nvmlDeviceGetClockInfo", nvml.clock);
  loaded.find("nvmlDeviceGetCurrPcieLinkGeneration", nvml.pcie_generation);
  loaded.find("nvmlDeviceGetMaxPcieLinkGeneration", nvml.pcie_generation_max);
  loaded.find("nvmlDeviceGetCurrPcieLinkWidth", nvml.pcie_width);
  loaded.find("nvmlDeviceGetMaxPcieLinkWidth", nvml.pcie_width_max);
  loaded.find("nvmlDeviceGetNvLinkState", nvml.nvlink_state);
  loaded.find("nvmlDeviceGetHandleByPciBusId_v2", nvml.device_at_pci);
  loaded.find("nvmlDeviceGetUtilizationRates", nvml.use);
  loaded.find("nvmlDeviceGetTotalEnergyConsumption", nvml.energy);
  if (!loaded.find("nvmlDeviceGetCurrentClocksEventReasons", nvml.slowed_by))  // its name before driver 535
    loaded.find("nvmlDeviceGetCurrentClocksThrottleReasons", nvml.slowed_by);
  return nvml;
}

GpuSurvey survey_nvidia(const Nvml& nvml) {
  if (const int code = nvml.init(); code != 0) {
    GpuSurvey survey;
    survey.absent.push_back(failure(nvml, "does not start", code));
    return survey;
  }
  GpuSurvey survey = survey_open(nvml);
  nvml.shutdown();
  return survey;
}

std::unique_ptr<GpuReader> nvidia_reader(const Nvml& nvml, const std::string& pci) {
  Nvml::Device device = nullptr;
  if (nvml.device_at_pci == nullptr || nvml.init() != 0) return nullptr;
  if (nvml.device_at_pci(pci.c_str(), &device) == 0) return std::make_unique<NvidiaReader>(nvml, device);
  nvml.shutdown();
  return nullptr;
}

}  // namespace hyperion::host
