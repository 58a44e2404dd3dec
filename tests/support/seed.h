// The seed of random tests.
#pragma once
#include <cstdint>

namespace hyperion::testing {

uint64_t seed();  // HYPERION_TEST_SEED, else 1

// Seeds LibTorch's generators; null in programs without LibTorch.
__attribute__((weak)) void seed_torch(uint64_t seed);

}  // namespace hyperion::testing
