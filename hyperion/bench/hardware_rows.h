// What `bench hardware` is asked for and what it gives.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hyperion/profile/timing.h"

namespace hyperion::bench {

struct HardwareOptions {
  std::vector<int64_t> sizes = {1024, 2048, 4096, 8192};
  std::vector<int64_t> elements = {10'000'000, 50'000'000, 100'000'000, 200'000'000, 500'000'000};
  std::string device = "auto";      // auto: the GPU where there is one; cpu; cuda
  std::vector<std::string> dtypes;  // of fp32, tf32, fp16, bf16, fp8; empty: all that the device has
  std::vector<std::string> only;    // of matmul, bandwidth, transfer, latency; empty: all
  double seconds_per_case = 1;
  bool quick = false;  // at most 0.2 s a case, vectors of 100 million at most, no product of over 3 s
};

struct HardwareRow {
  std::string kind;         // matmul, bandwidth, transfer, latency
  std::string name;         // "bf16", "triad", "host to device pinned", "kernel launch"
  int64_t size = 0;         // n of a product, elements of a vector, bytes of a transfer; 0: none
  profile::Spread seconds;  // of one call
  double work = 0;          // operations or bytes of one call; 0: the time itself is the figure
  double peak = 0;          // in the row's unit; 0: not known

  std::string unit() const;  // "TFLOP/s", "GB/s" (1e9), "us"
  double value() const;      // the median in that unit
  double low() const;        // a tenth of the repeats lie below, in that unit
  double high() const;       // a tenth lie above
  double percent() const;    // of the peak; 0: not known
};

struct HardwareResult {
  std::string device;  // cpu, cuda
  std::string device_name;
  std::string torch_version;
  std::string peak_source;  // "datasheet, dense", "measured: ...", "not known for this GPU"
  double unix_seconds = 0;  // when it began
  int threads = 0;          // that LibTorch uses on the CPU
  bool quick = false;
  std::vector<HardwareRow> rows;
  std::vector<std::string> notes;  // what was left out and why; a load seen at the start
};

}  // namespace hyperion::bench
