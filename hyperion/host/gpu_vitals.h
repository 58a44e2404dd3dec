// How a GPU that is at work is doing, asked of its vendor's library again and again.
#pragma once
#include <memory>
#include <optional>
#include <string>

namespace hyperion::host {

// What keeps a clock below what it could be.
enum class Slowed { nothing, power, heat, hardware };
const char* slowed_text(Slowed slowed);  // "its power limit"

// What the library did not tell is nothing.
struct GpuVitals {
  std::optional<double> clock, temperature, busy;  // MHz of the cores; degrees Celsius; percent of the time
  std::optional<double> power;                     // watts
  std::optional<double> energy;                    // joules, since the driver began to count
  std::optional<Slowed> slowed;
};

class GpuReader {
 public:
  virtual ~GpuReader() = default;
  virtual GpuVitals read() = 0;  // some milliseconds at most
};

// Of the GPU at this place, "0000:1b:00.0"; null where no library knows it.
std::unique_ptr<GpuReader> gpu_reader(const std::string& pci);

}  // namespace hyperion::host
