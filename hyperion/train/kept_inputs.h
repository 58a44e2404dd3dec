// What a run keeps of its data beside the weights, for who uses the model when the set is gone: the tokenizer, and how
// images became numbers.
#pragma once
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/data/source.h"
#include "hyperion/train/config.h"

namespace hyperion::train {

// With the tokenizer, the generation_config.json of the model it starts from.
void keep_tokenizer(base::FileSystem& files, const base::Path& run, const RunConfig& config);
void keep_processor(base::FileSystem& files, const base::Path& run, const data::Split& split);

// A language model's own tokenizer must be the one its data was prepared with, or one that the latter only adds to.
// Throws ConfigError. Data of bytes for a model that has one is odd: then a sentence to be told, else empty.
std::string check_tokenizer(base::FileSystem& files, const RunConfig& config);

// The ids, ascending, of tokens that the data's tokenizer has and that of model.from has not. Whatever the rows of
// these ids hold there, nothing was ever learned in them.
std::vector<int64_t> tokens_new_to_base(base::FileSystem& files, const RunConfig& config);

}  // namespace hyperion::train
