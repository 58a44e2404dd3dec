#include "hyperion/host/peaks.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace hyperion::host {
namespace {

struct Entry {
  const char* name;  // capitals, vendor's words left out, one space between words
  Peaks peaks;
};

constexpr Peaks kHopper{67, 494.5, 989.5, 989.5, 1979, 0};
constexpr Peaks kHopperNvl{60, 417.5, 835.5, 835.5, 1670.5, 0};
constexpr Peaks kAmpere{19.5, 156, 312, 312, 0, 0};
constexpr Peaks kMi300{163.4, 653.7, 1307.4, 1307.4, 2614.9, 0};

constexpr Peaks with_bandwidth(Peaks peaks, double bandwidth) {
  peaks.bandwidth = bandwidth;
  return peaks;
}

// fp32, tf32, fp16, bf16, fp8 in TFLOP/s; bandwidth in GB/s. AMD's fp32 is that of its matrix units, which products
// use. GeForce cards run fp16 and fp8 at half rate when they accumulate in fp32, as we do.
constexpr Entry kEntries[] = {
    {"B200", {75, 1125, 2250, 2250, 4500, 0}},
    {"H200", with_bandwidth(kHopper, 4800)},
    {"H200 NVL", with_bandwidth(kHopperNvl, 4800)},
    {"GH200 480GB", kHopper},
    {"GH200 120GB", kHopper},
    {"H100 80GB HBM3", with_bandwidth(kHopper, 3350)},
    {"H100 SXM5 80GB", with_bandwidth(kHopper, 3350)},
    {"H100 PCIE", {51, 378, 756.5, 756.5, 1513, 2000}},
    {"H100 NVL", with_bandwidth(kHopperNvl, 3900)},
    {"A100 SXM4 40GB", with_bandwidth(kAmpere, 1555)},
    {"A100 PCIE 40GB", with_bandwidth(kAmpere, 1555)},
    {"A100 SXM4 80GB", with_bandwidth(kAmpere, 2039)},
    {"A100 80GB PCIE", with_bandwidth(kAmpere, 1935)},
    {"A100 PCIE 80GB", with_bandwidth(kAmpere, 1935)},
    {"A40", {37.4, 74.8, 149.7, 149.7, 0, 696}},
    {"A30", {10.3, 82, 165, 165, 0, 933}},
    {"A10", {31.2, 62.5, 125, 125, 0, 600}},
    {"L4", {30.3, 60, 121, 121, 242.5, 300}},
    {"L40", {90.5, 90.5, 181, 181, 362, 864}},
    {"L40S", {91.6, 183, 362, 362, 733, 864}},
    {"RTX 4090", {82.6, 82.6, 165.2, 165.2, 330.3, 1008}},
    {"RTX 3090", {35.6, 35.6, 71, 71, 0, 936}},
    {"V100 SXM2 16GB", {15.7, 0, 125, 0, 0, 900}},
    {"V100 SXM2 32GB", {15.7, 0, 125, 0, 0, 900}},
    {"V100 PCIE 16GB", {14, 0, 112, 0, 0, 900}},
    {"V100 PCIE 32GB", {14, 0, 112, 0, 0, 900}},
    {"V100S PCIE 32GB", {16.4, 0, 130, 0, 0, 1134}},
    {"T4", {8.1, 0, 65, 0, 0, 0}},
    {"MI210", {45.3, 0, 181, 181, 0, 1638.4}},
    {"MI250X", {47.85, 0, 191.5, 191.5, 0, 1638.4}},
    {"MI300A", {122.6, 490.3, 980.6, 980.6, 1961.2, 5300}},
    {"MI300X", with_bandwidth(kMi300, 5300)},
    {"MI325X", with_bandwidth(kMi300, 6000)},
};

constexpr std::array<std::string_view, 7> kVendorWords = {"NVIDIA",  "AMD",      "INSTINCT", "TESLA",
                                                          "GEFORCE", "GRAPHICS", "OAM"};

std::string without_vendor(std::string_view name) {
  std::string result, word;
  auto finish_word = [&] {
    const bool vendor = std::find(kVendorWords.begin(), kVendorWords.end(), word) != kVendorWords.end();
    if (!word.empty() && !vendor) result += (result.empty() ? "" : " ") + word;
    word.clear();
  };
  for (char letter : name) {
    if (letter == ' ' || letter == '-' || letter == '_') {
      finish_word();
    } else {
      word += static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    }
  }
  finish_word();
  return result;
}

}  // namespace

double Peaks::of(std::string_view dtype) const {
  if (dtype == "fp32") return fp32;
  if (dtype == "tf32") return tf32;
  if (dtype == "fp16") return fp16;
  if (dtype == "bf16") return bf16;
  if (dtype == "fp8") return fp8;
  return 0;
}

const Peaks* find_peaks(std::string_view device_name) {
  const std::string name = without_vendor(device_name);
  const auto* found =
      std::find_if(std::begin(kEntries), std::end(kEntries), [&](const Entry& e) { return name == e.name; });
  return found == std::end(kEntries) ? nullptr : &found->peaks;
}

}  // namespace hyperion::host
