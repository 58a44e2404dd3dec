// DeepSpeed's JSON file (ds_config.json) in the words of a recipe, for `hyperion init --from-deepspeed`.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/interop/deepspeed_recipe.h"

namespace hyperion::interop {

// `file` is its name in messages; `ranks` the processes it is meant for, 0 where only the file may say. Throws
// CorruptError where the text is not JSON, and one ConfigError that names every key that is not known, of a wrong type,
// in contradiction to another, or asks for what is not here.
DeepSpeedRecipe read_deepspeed(std::string_view text, const std::string& file, int64_t ranks = 0);

}  // namespace hyperion::interop
