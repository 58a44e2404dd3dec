// The model as the data needs it: as many classes as the data has, by their names, or token ids.
#pragma once
#include <string>
#include <vector>

#include "hyperion/data/source.h"
#include "hyperion/train/config.h"

namespace hyperion::train {

struct ModelForData {
  std::string config;               // as Hugging Face's config.json
  std::vector<std::string> said{};  // what was changed, and what looks odd: lines for the user
};

// `config` is that of the recipe or of model.from. Images: where the recipe does not say how many classes, the data
// does; class names are the data's. Tokens: a model.from whose tokenizer has grown gets as many ids; `new_tokens`, ids
// that it does not know (kept_inputs.h), are told of where it has rows for them already. Throws ConfigError where the
// recipe says fewer than the data has.
ModelForData model_for_data(const RunConfig& config, const std::string& model, const data::Split& split,
                            const std::vector<int64_t>& new_tokens = {});

}  // namespace hyperion::train
