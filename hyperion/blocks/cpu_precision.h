// What this CPU makes of 16 bits. Neither its features nor its products alone tell: LibTorch's attention may be slow
// in a type whose products are fast.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>

namespace hyperion::blocks {

// How many times as long a transformer block takes in that type as in fp32, forward and backward, measured on the
// threads that are set. It is as wide and its sample as long as those given, up to 512 and 128: a fraction of a second,
// and some of them where the type is very slow.
double cpu_slowdown(c10::ScalarType type, int64_t width, int64_t length);

}  // namespace hyperion::blocks
