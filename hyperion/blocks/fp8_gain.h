// Whether a map's products are worth making in 8 bits: small ones are not, since rounding costs what it costs.
#pragma once
#include <c10/core/Device.h>

#include <cstdint>

namespace hyperion::blocks {

// Microseconds of one map a step, forward and backward: its three products in bf16 and in 8 bits, and the passes that
// round and turn their matrices where no other pass does it besides.
struct Fp8Gain {
  double wide = 0, narrow = 0, rounding = 0;  // all 0: not measured
  bool pays() const { return narrow + rounding <= wide; }
};

struct LinearShape {
  int64_t rows, in, out;
  bool in_out;
  auto operator<=>(const LinearShape&) const = default;
};

// Measured the first time a shape is met on a GPU, unless it is met while a graph records; elsewhere nothing is.
Fp8Gain fp8_gain(const LinearShape& shape, c10::Device device);

}  // namespace hyperion::blocks
