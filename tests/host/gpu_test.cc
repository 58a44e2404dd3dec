#include "hyperion/host/gpu.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "hyperion/host/nvml.h"
#include "hyperion/host/rocm_smi.h"
#include "tests/host/support_tree.h"

namespace hyperion::host {
namespace {

int fine() { return 0; }
int out_of_order() { return 999; }
int two(unsigned* count) { return *count = 2, 0; }
int none(unsigned* count) { return *count = 0, 0; }
const char* words(int) { return "Driver/library version mismatch"; }
char first_device, second_device;
int device_at(unsigned index, Nvml::Device* device) { return *device = index == 0 ? &first_device : &second_device, 0; }
int device_lost(unsigned index, Nvml::Device* device) { return index == 1 ? 15 : device_at(index, device); }
template <unsigned value>
int number(Nvml::Device, unsigned* out) {
  return *out = value, 0;
}

// A library with two cards, that tells everything.
Nvml two_cards() {
  Nvml nvml;
  nvml.init = fine, nvml.shutdown = fine, nvml.error_text = words;
  nvml.device_count = two, nvml.device_at = device_at;
  nvml.driver_version = [](char* text, unsigned size) { return std::snprintf(text, size, "580.65.06"), 0; };
  nvml.cuda_driver_version = [](int* version) { return *version = 13000, 0; };
  nvml.name = [](Nvml::Device device, char* text, unsigned size) {
    return std::snprintf(text, size, device == &first_device ? "NVIDIA H200" : "NVIDIA H100"), 0;
  };
  nvml.uuid = [](Nvml::Device, char* text, unsigned size) { return std::snprintf(text, size, "GPU-1234"), 0; };
  nvml.memory = [](Nvml::Device, NvmlMemory* memory) { return *memory = {1000, 400, 600}, 0; };
  nvml.temperature = [](Nvml::Device, int sensor, unsigned* out) { return *out = 41, sensor; };
  nvml.temperature_threshold = [](Nvml::Device, int kind, unsigned* out) { return *out = 92, kind == 1 ? 0 : 2; };
  nvml.power_usage = number<75500>, nvml.power_limit = number<700000>;
  nvml.clock = [](Nvml::Device, int kind, unsigned* out) { return *out = kind == 1 ? 1980 : 3201, 0; };
  nvml.pcie_generation = number<4>, nvml.pcie_generation_max = number<5>;
  nvml.pcie_width = number<8>, nvml.pcie_width_max = number<16>;
  nvml.nvlink_state = [](Nvml::Device, unsigned link, int* active) { return *active = link < 4, link < 6 ? 0 : 3; };
  return nvml;
}

TEST(gpu, nvml_tells_every_fact_in_our_units) {
  const GpuSurvey survey = survey_nvidia(two_cards());
  EXPECT_TRUE(survey.telemetry);
  EXPECT_TRUE(survey.absent.empty());
  ASSERT_EQ(survey.gpus.size(), 2u);
  const Gpu& gpu = survey.gpus[0];
  EXPECT_EQ(gpu.name, "NVIDIA H200");
  EXPECT_EQ(gpu.uuid, "GPU-1234");
  EXPECT_EQ(gpu.driver, "580.65.06");
  EXPECT_EQ(gpu.cuda_driver, 13000);
  EXPECT_EQ(gpu.memory_total, 1000u);
  EXPECT_EQ(gpu.memory_used, 600u);
  EXPECT_EQ(gpu.temperature, 41);
  EXPECT_EQ(gpu.slowdown_temperature, 92);
  EXPECT_DOUBLE_EQ(gpu.power.value(), 75.5);
  EXPECT_DOUBLE_EQ(gpu.power_limit.value(), 700);
  EXPECT_EQ(gpu.sm_clock, 1980);
  EXPECT_EQ(gpu.memory_clock, 3201);
  EXPECT_EQ(gpu.pcie_generation, 4);
  EXPECT_EQ(gpu.pcie_generation_max, 5);
  EXPECT_EQ(gpu.pcie_width, 8);
  EXPECT_EQ(gpu.pcie_width_max, 16);
  EXPECT_EQ(gpu.links, 4);
  EXPECT_EQ(survey.gpus[1].index, 1);
  EXPECT_EQ(survey.gpus[1].name, "NVIDIA H100");
}

TEST(gpu, what_nvml_refuses_or_lacks_is_unknown) {
  Nvml nvml = two_cards();
  nvml.temperature = nullptr;
  nvml.nvlink_state = nullptr;
  nvml.power_usage = [](Nvml::Device, unsigned* out) { return *out = 5, 3; };
  nvml.temperature_threshold = [](Nvml::Device, int, unsigned* out) { return *out = 4294967290u, 0; };
  const Gpu gpu = survey_nvidia(nvml).gpus.at(0);
  EXPECT_FALSE(gpu.temperature.has_value());
  EXPECT_FALSE(gpu.links.has_value());
  EXPECT_FALSE(gpu.power.has_value());
  EXPECT_FALSE(gpu.slowdown_temperature.has_value());
  EXPECT_EQ(gpu.memory_total, 1000u);
}

TEST(gpu, a_driver_that_does_not_start_says_why) {
  Nvml nvml = two_cards();
  nvml.init = out_of_order;
  const GpuSurvey survey = survey_nvidia(nvml);
  EXPECT_FALSE(survey.telemetry);
  EXPECT_TRUE(survey.gpus.empty());
  EXPECT_EQ(survey.absent, std::vector<std::string>{"NVML does not start: Driver/library version mismatch"});
}

TEST(gpu, one_lost_card_does_not_hide_the_other) {
  Nvml nvml = two_cards();
  nvml.device_at = device_lost;
  const GpuSurvey survey = survey_nvidia(nvml);
  EXPECT_EQ(survey.gpus.size(), 1u);
  EXPECT_EQ(survey.absent.at(0), "NVML cannot open GPU 1: Driver/library version mismatch");
}

TEST(gpu, a_driver_without_cards_says_so) {
  Nvml nvml = two_cards();
  nvml.device_count = none;
  const GpuSurvey survey = survey_nvidia(nvml);
  EXPECT_TRUE(survey.telemetry);
  EXPECT_EQ(survey.absent.at(0), "NVML answers, but sees no NVIDIA GPU");
}

TEST(gpu, an_absent_library_is_a_reason_not_an_error) {
  std::string reason;
  EXPECT_FALSE(load_nvml("libhyperion-no-such.so.1", reason).has_value());
  EXPECT_EQ(reason, "libhyperion-no-such.so.1 not found");
  EXPECT_FALSE(load_rocm_smi("libhyperion-no-such.so", reason).has_value());
  EXPECT_EQ(reason, "libhyperion-no-such.so not found");
}

TEST(gpu, a_library_of_another_kind_is_refused) {
  std::string reason;
  EXPECT_FALSE(load_nvml("libc.so.6", reason).has_value());
  EXPECT_EQ(reason, "libc.so.6 lacks functions every NVML has");
}

TEST(gpu, this_machine_can_be_surveyed) {
  const GpuSurvey survey = survey_gpus();
  EXPECT_TRUE(!survey.gpus.empty() || !survey.absent.empty());
}

RocmSmi three_amd_cards() {
  RocmSmi rocm;
  rocm.init = [](uint64_t) { return 0; };
  rocm.shutdown = fine;
  rocm.device_count = [](uint32_t* count) { return *count = 3, 0; };
  rocm.name = [](uint32_t, char* text, size_t size) { return std::snprintf(text, size, "AMD Instinct MI300X"), 0; };
  rocm.unique_id = [](uint32_t device, uint64_t* id) { return *id = 0xabc0 + device, 0; };
  rocm.pci_id = [](uint32_t, uint64_t* id) { return *id = uint64_t{1} << 32 | 0xc1 << 8 | 2 << 3 | 1, 0; };
  rocm.driver_version = [](int, char* text, uint32_t size) { return std::snprintf(text, size, "6.12.12"), 0; };
  rocm.memory_total = [](uint32_t, int, uint64_t* bytes) { return *bytes = 192, 0; };
  rocm.memory_used = [](uint32_t, int, uint64_t* bytes) { return *bytes = 3, 0; };
  rocm.temperature = [](uint32_t, uint32_t sensor, int, int64_t* out) { return *out = 51000, sensor == 1 ? 2 : 0; };
  rocm.power_average = [](uint32_t, uint32_t, uint64_t* out) { return *out = 140000000, 0; };
  rocm.power_limit = [](uint32_t, uint32_t, uint64_t* out) { return *out = 750000000, 0; };
  rocm.link_type = [](uint32_t, uint32_t to, uint64_t*, int* kind) { return *kind = to == 2 ? 1 : 2, 0; };
  return rocm;
}

TEST(gpu, rocm_smi_and_sysfs_tell_an_amd_card) {
  Tree tree;
  const std::string folder = "/sys/bus/pci/devices/0001:c1:02.1/";
  tree.file(folder + "current_link_speed", "16.0 GT/s PCIe\n").file(folder + "max_link_speed", "32.0 GT/s PCIe\n");
  tree.file(folder + "current_link_width", "8\n").file(folder + "max_link_width", "16\n");
  tree.file(folder + "pp_dpm_sclk", "0: 132Mhz\n1: 1700Mhz *\n2: 2100Mhz\n");
  const GpuSurvey survey = survey_amd(three_amd_cards(), tree.root());
  ASSERT_EQ(survey.gpus.size(), 3u);
  const Gpu& gpu = survey.gpus[0];
  EXPECT_EQ(gpu.vendor, GpuVendor::amd);
  EXPECT_EQ(gpu.name, "AMD Instinct MI300X");
  EXPECT_EQ(gpu.uuid, "000000000000abc0");
  EXPECT_EQ(gpu.driver, "6.12.12");
  EXPECT_EQ(gpu.temperature, 51);
  EXPECT_DOUBLE_EQ(gpu.power.value(), 140);
  EXPECT_DOUBLE_EQ(gpu.power_limit.value(), 750);
  EXPECT_EQ(gpu.pcie_generation, 4);
  EXPECT_EQ(gpu.pcie_generation_max, 5);
  EXPECT_EQ(gpu.pcie_width, 8);
  EXPECT_EQ(gpu.sm_clock, 1700);
  EXPECT_FALSE(gpu.memory_clock.has_value());
  EXPECT_EQ(gpu.links, 1);
  EXPECT_EQ(survey.gpus[2].links, 2);
}

int stopped = 0;

TEST(gpu_reader, nvml_tells_how_a_card_is_doing) {
  Nvml nvml = two_cards();
  stopped = 0;
  nvml.shutdown = [] { return ++stopped, 0; };
  nvml.device_at_pci = [](const char* pci, Nvml::Device* device) {
    return *device = &second_device, std::string(pci) == "0000:1b:00.0" ? 0 : 6;
  };
  EXPECT_EQ(nvidia_reader(nvml, "0000:1c:00.0"), nullptr);
  EXPECT_EQ(stopped, 1);
  nvml.use = [](Nvml::Device, NvmlUse* use) { return *use = {97, 40}, 0; };
  nvml.energy = [](Nvml::Device, unsigned long long* value) { return *value = 123'456'789, 0; };
  nvml.slowed_by = [](Nvml::Device, unsigned long long* reasons) { return *reasons = 0x4, 0; };
  {
    const auto reader = nvidia_reader(nvml, "0000:1b:00.0");
    ASSERT_NE(reader, nullptr);
    const auto vitals = reader->read();
    EXPECT_EQ(vitals.clock, 1980);
    EXPECT_EQ(vitals.temperature, 41);
    EXPECT_EQ(vitals.power, 75.5);
    EXPECT_EQ(vitals.busy, 97);
    EXPECT_EQ(vitals.energy, 123'456.789);
    EXPECT_EQ(vitals.slowed, Slowed::power);
    EXPECT_EQ(stopped, 1);
  }
  EXPECT_EQ(stopped, 2);
  nvml.slowed_by = [](Nvml::Device, unsigned long long* reasons) { return *reasons = 0x4 | 0x40, 0; };
  EXPECT_EQ(nvidia_reader(nvml, "0000:1b:00.0")->read().slowed, Slowed::heat);
  nvml.slowed_by = [](Nvml::Device, unsigned long long* reasons) { return *reasons = 0x1, 0; };  // it has nothing to do
  EXPECT_EQ(nvidia_reader(nvml, "0000:1b:00.0")->read().slowed, Slowed::nothing);
  nvml.use = nullptr, nvml.energy = nullptr, nvml.slowed_by = nullptr;
  const auto little = nvidia_reader(nvml, "0000:1b:00.0")->read();
  EXPECT_FALSE(little.busy || little.energy || little.slowed);
}

TEST(gpu_reader, rocm_smi_and_sysfs_tell_how_an_amd_card_is_doing) {
  Tree tree;
  tree.file("/sys/bus/pci/devices/0001:c1:02.1/pp_dpm_sclk", "0: 132Mhz\n1: 1700Mhz *\n2: 2100Mhz\n");
  RocmSmi rocm = three_amd_cards();
  rocm.busy = [](uint32_t, uint32_t* percent) { return *percent = 88, 0; };
  rocm.energy = [](uint32_t, uint64_t* counted, float* each, uint64_t*) { return *counted = 1000, *each = 15.25, 0; };
  EXPECT_EQ(amd_reader(rocm, "0001:c1:02.0", tree.root()), nullptr);
  const auto reader = amd_reader(rocm, "0001:c1:02.1", tree.root());
  ASSERT_NE(reader, nullptr);
  const auto vitals = reader->read();
  EXPECT_EQ(vitals.clock, 1700);
  EXPECT_EQ(vitals.temperature, 51);
  EXPECT_EQ(vitals.power, 140);
  EXPECT_EQ(vitals.busy, 88);
  EXPECT_EQ(vitals.energy, 0.01525);
  EXPECT_FALSE(vitals.slowed.has_value());
}

TEST(gpu_reader, of_a_place_without_a_card_is_none) { EXPECT_EQ(gpu_reader("ffff:ff:1f.7"), nullptr); }

}  // namespace
}  // namespace hyperion::host
