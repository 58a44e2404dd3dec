// What this CPU makes of products in 16 bits: where it has none, LibTorch adds their terms up one by one.
#pragma once
#include <c10/core/ScalarType.h>

namespace hyperion::kernels {

// How many times as long a product of two matrices takes in that type as in fp32, measured on the threads that are set;
// below a tenth of a second where the CPU is of this age.
double product_slowdown(c10::ScalarType type);

}  // namespace hyperion::kernels
