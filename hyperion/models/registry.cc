#include "hyperion/models/registry.h"

#include <deque>
#include <iterator>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/models/config_reader.h"
#include "hyperion/models/gpt2.h"
#include "hyperion/models/llama.h"
#include "hyperion/models/moe.h"
#include "hyperion/models/resnet.h"
#include "hyperion/models/vit.h"

namespace hyperion::models {
namespace {

using base::format;

constexpr Family kFamilies[] = {family<gpt2_from_json, make_gpt2>("gpt2", "GPT2LMHeadModel"),
                                family<llama_from_json, make_llama>("llama", "LlamaForCausalLM"),
                                family<mistral_from_json, make_llama>("mistral", "MistralForCausalLM"),
                                family<qwen2_from_json, make_llama>("qwen2", "Qwen2ForCausalLM"),
                                family<qwen3_from_json, make_llama>("qwen3", "Qwen3ForCausalLM"),
                                family<mixtral_from_json, make_moe>("mixtral", "MixtralForCausalLM"),
                                family<qwen2_moe_from_json, make_moe>("qwen2_moe", "Qwen2MoeForCausalLM"),
                                family<vit_from_json, make_vit>("vit", "ViTForImageClassification"),
                                family<resnet_from_json, make_resnet>("resnet", "ResNetForImageClassification")};

std::deque<Family>& families() {
  static std::deque<Family> list(std::begin(kFamilies), std::end(kFamilies));
  return list;
}

const Family& family_of(const std::string& model_type, const std::string& place) {
  std::string known;
  for (const Family& family : families()) {
    if (model_type == family.model_type) return family;
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  }
  throw base::CorruptError(format("{}: model_type \"{}\" is not known here", place, model_type),
                           format("this version knows {}", known));
}

const Family& family_of_config(const std::string& config_json, const std::string& place) {
  if (config_json.size() > kMostConfigBytes)
    throw base::CorruptError(format("{} has {} bytes: too long for a config.json", place, config_json.size()));
  const base::Json json = base::parse_json(config_json, place);
  if (!json.is_object() || !json.contains("model_type") || !json["model_type"].is_string())
    throw base::CorruptError(format("{} names no model_type", place));
  return family_of(json["model_type"].get<std::string>(), place);
}

}  // namespace

void add_family(const Family& family) { families().push_back(family); }

std::unique_ptr<Model> make_model(const std::string& config_json, const std::string& place) {
  return family_of_config(config_json, place).make(config_json, place);
}

std::string make_config(const std::string& config_json, const std::string& place) {
  return family_of_config(config_json, place).config(config_json, place);
}

strategy::ModelShape config_shape(const std::string& config_json, const std::string& place, int64_t length) {
  return family_of_config(config_json, place).shape(config_json, place, length);
}

std::string architecture_of(const std::string& model_type) { return family_of(model_type, "the model").architecture; }

}  // namespace hyperion::models
