// DeepSpeed's JSON file (ds_config.json) in the words of a recipe, for `hyperion init --from-deepspeed`.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hyperion::interop {

struct DeepSpeedRecipe {
  struct Setting {
    std::string name, value;  // "train.batch", "64": as Settings::set takes them
    std::string why;          // the key it came from, and what is counted otherwise here
  };
  std::vector<Setting> settings;   // of two with one name the later holds
  std::vector<std::string> notes;  // keys without a counterpart, each with the reason
  int64_t ranks = 0;               // processes that the batch sizes speak of; 0: of any number
};

// `file` is its name in messages; `ranks` the processes it is meant for, 0 where only the file may say. Throws
// CorruptError where the text is not JSON, and one ConfigError that names every key that is not known, of a wrong type,
// in contradiction to another, or asks for what is not here.
DeepSpeedRecipe read_deepspeed(std::string_view text, const std::string& file, int64_t ranks = 0);

}  // namespace hyperion::interop
