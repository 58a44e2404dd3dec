#include "hyperion/host/rocm_smi.h"

#include <cstdlib>

#include "hyperion/base/format.h"
#include "hyperion/host/dynamic_library.h"
#include "hyperion/host/system_files.h"

namespace hyperion::host {
namespace {

// Values of the library's enumerations.
constexpr int kVideoMemory = 0, kCurrent = 0, kDriver = 0, kXgmi = 2;
constexpr uint32_t kEdgeSensor = 0, kJunctionSensor = 1, kMemorySensor = 2;

std::optional<int> hottest(const RocmSmi& rocm, uint32_t device) {
  if (rocm.temperature == nullptr) return std::nullopt;
  // The junction is what throttles; old cards tell only the edge.
  for (const uint32_t sensor : {kJunctionSensor, kEdgeSensor, kMemorySensor}) {
    int64_t millidegrees = 0;
    if (rocm.temperature(device, sensor, kCurrent, &millidegrees) == 0) return static_cast<int>(millidegrees / 1000);
  }
  return std::nullopt;
}

std::optional<double> watts(const RocmSmi& rocm, uint32_t device) {
  uint64_t microwatts = 0;
  int kind = 0;
  if (rocm.power != nullptr && rocm.power(device, &microwatts, &kind) == 0)
    return static_cast<double>(microwatts) / 1e6;
  if (rocm.power_average != nullptr && rocm.power_average(device, 0, &microwatts) == 0)
    return static_cast<double>(microwatts) / 1e6;
  return std::nullopt;
}

int xgmi_peers(const RocmSmi& rocm, uint32_t device, uint32_t count) {
  int peers = 0;
  for (uint32_t other = 0; other < count; ++other) {
    uint64_t hops = 0;
    int kind = 0;
    if (other != device && rocm.link_type(device, other, &hops, &kind) == 0 && kind == kXgmi) ++peers;
  }
  return peers;
}

// "16.0 GT/s PCIe" to a generation.
std::optional<int> generation(const std::optional<std::string>& speed) {
  if (!speed) return std::nullopt;
  const double rate = std::strtod(speed->c_str(), nullptr);
  const double rates[] = {2.5, 5, 8, 16, 32, 64};
  for (int number = 0; number < 6; ++number)
    if (rate == rates[number]) return number + 1;
  return std::nullopt;
}

std::optional<int> as_int(std::optional<int64_t> number) {
  return number ? std::optional<int>(static_cast<int>(*number)) : std::nullopt;
}

// The line with the star: "1: 1700Mhz *".
std::optional<int> clock_now(const std::optional<std::string>& table) {
  if (!table) return std::nullopt;
  for (const std::string& line : split(*table, '\n')) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos && line.find('*') != std::string::npos) return std::atoi(line.c_str() + colon + 1);
  }
  return std::nullopt;
}

std::string pci_place(uint64_t id) {
  return base::format("{:04x}:{:02x}:{:02x}.{:x}", id >> 32, id >> 8 & 0xff, id >> 3 & 0x1f, id & 7);
}

std::string pci_folder(const std::string& place) { return base::format("/sys/bus/pci/devices/{}/", place); }

void read_pci_folder(const base::Path& root, uint64_t id, Gpu& gpu) {
  const std::string folder = pci_folder(pci_place(id));
  gpu.pcie_generation = generation(system_text(root, folder + "current_link_speed"));
  gpu.pcie_generation_max = generation(system_text(root, folder + "max_link_speed"));
  gpu.pcie_width = as_int(system_number(root, folder + "current_link_width"));
  gpu.pcie_width_max = as_int(system_number(root, folder + "max_link_width"));
  gpu.sm_clock = clock_now(system_text(root, folder + "pp_dpm_sclk"));
  gpu.memory_clock = clock_now(system_text(root, folder + "pp_dpm_mclk"));
}

Gpu describe(const RocmSmi& rocm, const base::Path& root, uint32_t device, uint32_t count) {
  Gpu gpu;
  gpu.index = static_cast<int>(device);
  gpu.vendor = GpuVendor::amd;
  char text[256] = {};
  if (rocm.name != nullptr && rocm.name(device, text, sizeof text) == 0 && text[0] != '\0') gpu.name = text;
  uint64_t number = 0;
  if (rocm.unique_id != nullptr && rocm.unique_id(device, &number) == 0) gpu.uuid = base::format("{:016x}", number);
  if (rocm.memory_total != nullptr && rocm.memory_total(device, kVideoMemory, &number) == 0) gpu.memory_total = number;
  if (rocm.memory_used != nullptr && rocm.memory_used(device, kVideoMemory, &number) == 0) gpu.memory_used = number;
  gpu.temperature = hottest(rocm, device);
  gpu.power = watts(rocm, device);
  if (rocm.power_limit != nullptr && rocm.power_limit(device, 0, &number) == 0)
    gpu.power_limit = static_cast<double>(number) / 1e6;
  if (rocm.link_type != nullptr) gpu.links = xgmi_peers(rocm, device, count);
  if (rocm.pci_id != nullptr && rocm.pci_id(device, &number) == 0) read_pci_folder(root, number, gpu);
  return gpu;
}

class AmdReader final : public GpuReader {
 public:
  AmdReader(const RocmSmi& rocm, uint32_t device, base::Path root, const std::string& pci)
      : rocm_(rocm), device_(device), root_(std::move(root)), clocks_(pci_folder(pci) + "pp_dpm_sclk") {}
  ~AmdReader() override { rocm_.shutdown(); }
  AmdReader(const AmdReader&) = delete;
  AmdReader& operator=(const AmdReader&) = delete;

  GpuVitals read() override {
    GpuVitals vitals;
    if (const auto clock = clock_now(system_text(root_, clocks_))) vitals.clock = *clock;
    if (const auto degrees = hottest(rocm_, device_)) vitals.temperature = *degrees;
    vitals.power = watts(rocm_, device_);
    uint32_t percent = 0;
    if (rocm_.busy != nullptr && rocm_.busy(device_, &percent) == 0) vitals.busy = percent;
    uint64_t counted = 0, time = 0;
    float each = 0;
    if (rocm_.energy != nullptr && rocm_.energy(device_, &counted, &each, &time) == 0)
      vitals.energy = static_cast<double>(counted) * static_cast<double>(each) / 1e6;
    return vitals;
  }

 private:
  RocmSmi rocm_;
  uint32_t device_;
  base::Path root_;
  std::string clocks_;
};

GpuSurvey survey_open(const RocmSmi& rocm, const base::Path& root) {
  GpuSurvey survey;
  uint32_t count = 0;
  if (const int code = rocm.device_count(&count); code != 0) {
    survey.absent.push_back(base::format("rocm_smi cannot count GPUs: error {}", code));
    return survey;
  }
  survey.telemetry = true;
  char driver[256] = {};
  const bool told = rocm.driver_version != nullptr && rocm.driver_version(kDriver, driver, sizeof driver) == 0;
  for (uint32_t device = 0; device < count; ++device) {
    survey.gpus.push_back(describe(rocm, root, device, count));
    if (told) survey.gpus.back().driver = driver;
  }
  if (count == 0) survey.absent.emplace_back("rocm_smi answers, but sees no AMD GPU");
  return survey;
}

}  // namespace

std::optional<RocmSmi> load_rocm_smi(const char* library, std::string& reason) {
  const DynamicLibrary loaded(library);
  if (!loaded.loaded()) {
    reason = loaded.reason();
    return std::nullopt;
  }
  RocmSmi rocm;
  const bool whole = loaded.find("rsmi_init", rocm.init) && loaded.find("rsmi_shut_down", rocm.shutdown) &&
                     loaded.find("rsmi_num_monitor_devices", rocm.device_count);
  if (!whole) {
    reason = base::format("{} lacks functions every rocm_smi has", library);
    return std::nullopt;
  }
  loaded.find("rsmi_dev_name_get", rocm.name);
  loaded.find("rsmi_dev_unique_id_get", rocm.unique_id);
  loaded.find("rsmi_dev_pci_id_get", rocm.pci_id);
  loaded.find("rsmi_version_str_get", rocm.driver_version);
  loaded.find("rsmi_dev_memory_total_get", rocm.memory_total);
  loaded.find("rsmi_dev_memory_usage_get", rocm.memory_used);
  loaded.find("rsmi_dev_temp_metric_get", rocm.temperature);
  loaded.find("rsmi_dev_power_get", rocm.power);
  loaded.find("rsmi_dev_power_ave_get", rocm.power_average);
  loaded.find("rsmi_dev_power_cap_get", rocm.power_limit);
  loaded.find("rsmi_topo_get_link_type", rocm.link_type);
  loaded.find("rsmi_dev_busy_percent_get", rocm.busy);
  loaded.find("rsmi_dev_energy_count_get", rocm.energy);
  return rocm;
}

GpuSurvey survey_amd(const RocmSmi& rocm, const base::Path& root) {
  if (const int code = rocm.init(0); code != 0) {
    GpuSurvey survey;
    survey.absent.push_back(base::format("rocm_smi does not start: error {}", code));
    return survey;
  }
  GpuSurvey survey = survey_open(rocm, root);
  rocm.shutdown();
  return survey;
}

std::unique_ptr<GpuReader> amd_reader(const RocmSmi& rocm, const std::string& pci, const base::Path& root) {
  if (rocm.pci_id == nullptr || rocm.init(0) != 0) return nullptr;
  uint32_t count = 0;
  if (rocm.device_count(&count) != 0) count = 0;
  for (uint32_t device = 0; device < count; ++device) {
    uint64_t id = 0;
    if (rocm.pci_id(device, &id) != 0 || pci_place(id) != pci) continue;
    return std::make_unique<AmdReader>(rocm, device, root, pci);
  }
  rocm.shutdown();
  return nullptr;
}

}  // namespace hyperion::host
