#include "hyperion/models/registry.h"

#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/models/gpt2.h"
#include "hyperion/models/llama.h"

namespace hyperion::models {
namespace {

using base::format;

struct Family {
  const char* model_type;
  const char* architecture;
  std::unique_ptr<LanguageModel> (*make)(const std::string& text, const std::string& place);
  strategy::ModelShape (*shape)(const std::string& text, const std::string& place, int64_t length);
};

// Both functions of a family, from how it reads a config and how it makes a model of one.
template <auto read, auto create>
constexpr Family family(const char* model_type, const char* architecture) {
  return {model_type, architecture,
          [](const std::string& text, const std::string& place) { return create(read(text, place)); },
          [](const std::string& text, const std::string& place, int64_t length) {
            return shape_of(read(text, place), length);
          }};
}

constexpr Family kFamilies[] = {family<gpt2_from_json, make_gpt2>("gpt2", "GPT2LMHeadModel"),
                                family<llama_from_json, make_llama>("llama", "LlamaForCausalLM"),
                                family<qwen2_from_json, make_llama>("qwen2", "Qwen2ForCausalLM")};

const Family& family_of(const std::string& model_type, const std::string& place) {
  std::string known;
  for (const Family& family : kFamilies) {
    if (model_type == family.model_type) return family;
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  }
  throw base::CorruptError(format("{}: model_type \"{}\" is not known here", place, model_type),
                           format("this version knows {}", known));
}

const Family& family_of_config(const std::string& config_json, const std::string& place) {
  const base::Json json = base::parse_json(config_json, place);
  if (!json.is_object() || !json.contains("model_type") || !json["model_type"].is_string())
    throw base::CorruptError(format("{} names no model_type", place));
  return family_of(json["model_type"].get<std::string>(), place);
}

}  // namespace

std::unique_ptr<LanguageModel> make_model(const std::string& config_json, const std::string& place) {
  return family_of_config(config_json, place).make(config_json, place);
}

strategy::ModelShape config_shape(const std::string& config_json, const std::string& place, int64_t length) {
  return family_of_config(config_json, place).shape(config_json, place, length);
}

std::string architecture_of(const std::string& model_type) { return family_of(model_type, "the model").architecture; }

}  // namespace hyperion::models
