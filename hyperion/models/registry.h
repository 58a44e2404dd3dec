// Models by the name Hugging Face's config.json gives them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hyperion/models/language_model.h"

namespace hyperion::models {

// From the text of a config.json; parameters are not set yet. Throws CorruptError that starts with `place` on a
// model_type or a field that is not known here.
std::unique_ptr<LanguageModel> make_model(const std::string& config_json, const std::string& place);

// Without making it: no memory is taken. Throws as make_model does.
strategy::ModelShape config_shape(const std::string& config_json, const std::string& place, int64_t length);

// The class `transformers` loads such a model into: "GPT2LMHeadModel". model_type must be known here.
std::string architecture_of(const std::string& model_type);

}  // namespace hyperion::models
