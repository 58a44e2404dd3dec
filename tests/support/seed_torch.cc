#include <ATen/Context.h>

#include "tests/support/seed.h"

void hyperion::testing::seed_torch(uint64_t seed) { at::manual_seed(seed); }
