// Training on folders that `hyperion data prepare` made.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "hyperion/data/source.h"

namespace hyperion::data {

inline constexpr const char* kTrainSet = "train.set";
inline constexpr const char* kValidationSet = "validation.set";
inline constexpr const char* kSetRecord = "set.json";
inline constexpr const char* kSetTokenizer = "tokenizer";  // a folder

// The record of a set. Throws ConfigError where the folder has none, CorruptError where it is no such record.
nlohmann::json read_set_record(base::FileSystem& files, const base::Path& folder);
// Name, size and hash of each file of a set: of a .set file its digest, of a tokenizer's file the hash of its bytes.
nlohmann::json set_files(base::FileSystem& files, const base::Path& folder);
// Throws CorruptError for the first that is missing, or not what the record says. The sets themselves are not read.
void check_set_files(base::FileSystem& files, const base::Path& folder);

// Throws ConfigError where the folder is no prepared set, which `named` says as the user did; else as check_set_files.
void check_prepared(const base::Path& folder, const std::string& named);

// The folders of data.path, mixed by data.weights. Throws ConfigError where one is no such folder or too small.
Split open_prepared(const DataConfig& config, SampleSize size, uint64_t seed);

}  // namespace hyperion::data
