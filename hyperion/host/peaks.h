// What the makers' datasheets promise: dense (no sparsity) matrix throughput with fp32 accumulation, and memory
// bandwidth, by the name that the driver reports. Only figures that a datasheet or architecture paper states.
#pragma once
#include <string_view>

namespace hyperion::host {

struct Peaks {
  // TFLOP/s; 0: not supported or not known.
  double fp32 = 0, tf32 = 0, fp16 = 0, bf16 = 0, fp8 = 0;
  double bandwidth = 0;  // GB/s (1e9 bytes); 0: not known

  double of(std::string_view dtype) const;  // fp32, tf32, fp16, bf16, fp8; 0 for another
};

// Null for a GPU that is not in the table; the look-up is exact but for the vendor's words, so that a slower sibling
// ("RTX 4090 D", "A10G", a MIG slice) never gets its faster sibling's peak. An MI250X is listed as one of its two dies,
// as programs see it.
const Peaks* find_peaks(std::string_view device_name);

}  // namespace hyperion::host
