// What a DeepSpeed file asks for, in the words of a recipe.
#pragma once
#include <cstdint>
#include <string>
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

}  // namespace hyperion::interop
