// What this CPU makes of 16 bits. Neither its features nor its products alone tell: LibTorch's attention may be slow
// in a type whose products are fast.
#pragma once
#include <c10/core/ScalarType.h>

namespace hyperion::kernels {

// How many times as long a small transformer block takes in that type as in fp32, forward and backward, measured on the
// threads that are set. Takes some milliseconds, and some hundred where the type is very slow.
double cpu_slowdown(c10::ScalarType type);

}  // namespace hyperion::kernels
