// Training on folders that `hyperion data prepare` made.
#pragma once
#include "hyperion/data/source.h"

namespace hyperion::data {

inline constexpr const char* kTrainSet = "train.set";
inline constexpr const char* kValidationSet = "validation.set";
inline constexpr const char* kSetRecord = "set.json";
inline constexpr const char* kSetTokenizer = "tokenizer";  // a folder

// The folders of data.path, mixed by data.weights. Throws ConfigError where one is no such folder or too small.
Split open_prepared(const DataConfig& config, SampleSize size, uint64_t seed);

}  // namespace hyperion::data
