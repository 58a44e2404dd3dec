// The data that settings name, whatever its kind.
#pragma once
#include "hyperion/data/source.h"

namespace hyperion::data {

// Throws ConfigError, FileError or CorruptError where it cannot be had.
Split open_data(const DataConfig& config, SampleSize size, uint64_t seed);

}  // namespace hyperion::data
