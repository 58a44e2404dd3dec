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
};

std::unique_ptr<LanguageModel> gpt2(const std::string& text, const std::string& place) {
  return make_gpt2(gpt2_from_json(text, place));
}

std::unique_ptr<LanguageModel> llama(const std::string& text, const std::string& place) {
  return make_llama(llama_from_json(text, place));
}

std::unique_ptr<LanguageModel> qwen2(const std::string& text, const std::string& place) {
  return make_llama(qwen2_from_json(text, place));
}

constexpr Family kFamilies[] = {
    {"gpt2", "GPT2LMHeadModel", gpt2}, {"llama", "LlamaForCausalLM", llama}, {"qwen2", "Qwen2ForCausalLM", qwen2}};

const Family& family_of(const std::string& model_type, const std::string& place) {
  std::string known;
  for (const Family& family : kFamilies) {
    if (model_type == family.model_type) return family;
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  }
  throw base::CorruptError(format("{}: model_type \"{}\" is not known here", place, model_type),
                           format("this version knows {}", known));
}

}  // namespace

std::unique_ptr<LanguageModel> make_model(const std::string& config_json, const std::string& place) {
  const base::Json json = base::parse_json(config_json, place);
  if (!json.is_object() || !json.contains("model_type") || !json["model_type"].is_string())
    throw base::CorruptError(format("{} names no model_type", place));
  return family_of(json["model_type"].get<std::string>(), place).make(config_json, place);
}

std::string architecture_of(const std::string& model_type) { return family_of(model_type, "the model").architecture; }

}  // namespace hyperion::models
