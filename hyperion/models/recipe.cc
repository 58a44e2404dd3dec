#include "hyperion/models/recipe.h"

#include <map>
#include <nlohmann/json.hpp>
#include <variant>

#include "hyperion/base/error.h"
#include "hyperion/base/files.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/models/registry.h"

namespace hyperion::models {
namespace {

using base::ConfigError;
using base::format;
using base::Json;

using Member = std::variant<int64_t Recipe::*, double Recipe::*>;

// Where a setting stands in each family's config.json; a family that is not listed has no such thing.
struct Field {
  const char* setting;
  Member member;
  std::map<std::string, const char*> keys;
};

std::map<std::string, const char*> decoders(const char* key) {
  return {{"llama", key}, {"mistral", key}, {"qwen2", key}, {"qwen3", key}, {"mixtral", key}, {"qwen2_moe", key}};
}
std::map<std::string, const char*> with(std::map<std::string, const char*> keys, const char* family, const char* key) {
  keys[family] = key;
  return keys;
}
std::map<std::string, const char*> experts(const char* key) { return {{"mixtral", key}, {"qwen2_moe", key}}; }

const std::vector<Field>& fields() {
  static const std::vector<Field> list = {
      {"layers", &Recipe::layers,
       with(with(decoders("num_hidden_layers"), "gpt2", "n_layer"), "vit", "num_hidden_layers")},
      {"heads", &Recipe::heads,
       with(with(decoders("num_attention_heads"), "gpt2", "n_head"), "vit", "num_attention_heads")},
      {"key_value_heads", &Recipe::key_value_heads, decoders("num_key_value_heads")},
      {"width", &Recipe::width, with(with(decoders("hidden_size"), "gpt2", "n_embd"), "vit", "hidden_size")},
      {"inner", &Recipe::inner,
       with(with(decoders("intermediate_size"), "gpt2", "n_inner"), "vit", "intermediate_size")},
      {"context", &Recipe::context, with(decoders("max_position_embeddings"), "gpt2", "n_positions")},
      {"vocabulary", &Recipe::vocabulary, with(decoders("vocab_size"), "gpt2", "vocab_size")},
      {"dropout", &Recipe::dropout, {{"gpt2", "resid_pdrop"}, {"vit", "hidden_dropout_prob"}}},
      {"experts", &Recipe::experts, {{"mixtral", "num_local_experts"}, {"qwen2_moe", "num_experts"}}},
      {"experts_per_token", &Recipe::experts_per_token, experts("num_experts_per_tok")},
      {"balance_loss", &Recipe::balance_loss, experts("router_aux_loss_coef")},
      {"router_z_loss", &Recipe::router_z_loss, experts("router_z_loss_coef")},
      {"capacity", &Recipe::capacity, experts("expert_capacity_factor")},
      {"image", &Recipe::image, {{"vit", "image_size"}, {"resnet", "image_size"}}},
      {"patch", &Recipe::patch, {{"vit", "patch_size"}}},
      {"classes", &Recipe::classes, {{"vit", "num_labels"}, {"resnet", "num_labels"}}},
  };
  return list;
}

// What a recipe may say beside model.from.
bool may_differ_from_base(std::string_view setting) {
  return setting == "classes" || setting == "vocabulary" || setting == "image";
}

const Preset& find_preset(const std::string& name) {
  std::vector<std::string> names;
  std::string all;
  for (const auto& preset : presets()) {
    if (name == preset.name) return preset;
    names.push_back(preset.name);
    all += (all.empty() ? "" : ", ") + names.back();
  }
  const std::string near = base::nearest(name, names.data(), names.data() + names.size());
  throw ConfigError(format("model.preset = \"{}\" is not known", name),
                    near.empty() ? "one of " + all : format("did you mean \"{}\"?", near));
}

Json value_of(const Recipe& recipe, const Member& member) {
  return std::visit([&](auto field) { return Json(recipe.*field); }, member);
}

Json read_config_file(const std::string& path) {
  constexpr uint64_t kLongest = 1 << 20;
  auto& files = base::real_files();
  if (!files.exists(path))
    throw ConfigError(format("model.config = \"{}\" does not exist", path), "name a config.json");
  if (files.size(path) > kLongest)
    throw ConfigError(format("model.config = \"{}\" is too long for a config.json", path), "name a config.json");
  Json config = base::parse_json(files.read(path), path);
  if (!config.is_object() || !config.contains("model_type") || !config["model_type"].is_string())
    throw ConfigError(format("{} names no model_type", path), "a config.json says which family the model is of");
  return config;
}

void apply(const Recipe& recipe, Json& config) {
  const std::string family = config.at("model_type");
  for (const auto& field : fields()) {
    const Json value = value_of(recipe, field.member);
    if (value == 0) continue;
    const auto key = field.keys.find(family);
    if (key == field.keys.end())
      throw ConfigError(format("model.{} means nothing to a model of family {}", field.setting, family),
                        "leave it out, or choose another model.preset");
    config[key->second] = value;
  }
  if (recipe.balance_loss > 0) config["output_router_logits"] = true;
  if (family != "gpt2") return;
  config["embd_pdrop"] = config["resid_pdrop"] = recipe.dropout;
  if (!config.contains("attn_pdrop")) config["attn_pdrop"] = 0.0;
}

void check_heads(const Json& config) {
  const bool gpt2 = config.contains("n_head");
  const char* heads_key = gpt2 ? "n_head" : "num_attention_heads";
  if (!config.contains(heads_key)) return;
  const int64_t heads = config.at(heads_key), width = config.at(gpt2 ? "n_embd" : "hidden_size");
  const bool own_width = config.contains("head_dim") && !config.at("head_dim").is_null();
  if (width % heads != 0 && !own_width)
    throw ConfigError(format("model.heads = {} does not divide model.width = {}", heads, width),
                      "choose a width that is a multiple of the heads, usually 64 a head");
  const int64_t shared = config.value("num_key_value_heads", heads);
  if (heads % shared != 0)
    throw ConfigError(format("model.key_value_heads = {} does not divide model.heads = {}", shared, heads),
                      "each key head serves the same number of query heads");
}

}  // namespace

void describe(base::Settings& settings, Recipe& recipe) {
  settings.section("model", "what is trained; 0 means: as the preset has it")
      .text("preset", recipe.preset, "sizes by name, see `hyperion presets`")
      .text("config", recipe.config, "a config.json to take in place of the preset")
      .text(
          "from", recipe.from,
          "start from the weights of this MODEL: a run, a checkpoint, a Hugging Face folder, or OWNER/NAME of the hub")
      .choice("quantize", recipe.quantize, "nf4: frozen weights in 4 bits, trained through [lora]")
      .integer("layers", recipe.layers, {0, 1024}, "transformer blocks")
      .integer("heads", recipe.heads, {0, 1024}, "attention heads; must divide the width")
      .integer("key_value_heads", recipe.key_value_heads, {0, 1024}, "heads of keys and values; must divide the heads")
      .integer("width", recipe.width, {0, 65536}, "hidden width")
      .integer("inner", recipe.inner, {0, 1 << 18}, "width inside the feed-forward part")
      .integer("context", recipe.context, {0, 1 << 20}, "longest sequence", "tokens")
      .integer("vocabulary", recipe.vocabulary, {0, 1 << 20}, "token ids; 256 for bytes")
      .real("dropout", recipe.dropout, {0, 0.9}, "probability of dropping an activation in training")
      .integer("experts", recipe.experts, {0, 4096}, "experts a layer")
      .integer("experts_per_token", recipe.experts_per_token, {0, 4096}, "experts that see a token")
      .real("balance_loss", recipe.balance_loss, {0, 100}, "weight of the loss that balances experts")
      .real("router_z_loss", recipe.router_z_loss, {0, 100}, "weight of the loss that keeps router logits small")
      .real("capacity", recipe.capacity, {0, 1000}, "an expert takes at most this many times its even share; 0: all")
      .integer("image", recipe.image, {0, 4096}, "side of an image", "pixels")
      .integer("patch", recipe.patch, {0, 1024}, "side of a patch", "pixels")
      .integer("classes", recipe.classes, {0, 1 << 20}, "classes of images");
}

void check_from(const Recipe& recipe) {
  if (recipe.preset != Recipe{}.preset)
    throw ConfigError(format("model.preset = \"{}\" and model.from = \"{}\" are both set", recipe.preset, recipe.from),
                      "leave one of the two out");
  if (!recipe.config.empty())
    throw ConfigError(format("model.config and model.from = \"{}\" are both set", recipe.from),
                      "leave one of the two out");
  for (const auto& field : fields())
    if (value_of(recipe, field.member) != 0 && !may_differ_from_base(field.setting))
      throw ConfigError(format("model.{} is set, but model.from = \"{}\" brings its own", field.setting, recipe.from),
                        "leave one of the two out");
}

bool is_resnet(const std::string& config, const std::string& place) {
  const Json json = base::parse_json(config, place);
  const auto type = json.is_object() ? json.find("model_type") : json.end();
  return type != json.end() && *type == "resnet";
}

std::string config_of_base(const Recipe& recipe, const std::string& config) {
  if (recipe.image == 0) return config;
  if (!is_resnet(config, recipe.from)) {
    const int64_t own = config_shape(config, recipe.from, /*length=*/1).image;
    if (own == recipe.image) return config;
    throw ConfigError(
        format("model.image = {} is set, but model.from = \"{}\" {}", recipe.image, recipe.from,
               own == 0 ? "takes no images"
                        : format("has learned positions in images of {} pixels a side, and takes no others", own)),
        own == 0 ? "leave it out" : "leave it out: images are made as large as the model takes them");
  }
  Json json = base::parse_json(config, recipe.from);
  json["image_size"] = recipe.image;
  return json.dump();
}

std::string config_json(const Recipe& recipe) {
  Json config = recipe.config.empty() ? base::parse_json(find_preset(recipe.preset).config, recipe.preset)
                                      : read_config_file(recipe.config);
  apply(recipe, config);
  check_heads(config);
  try {
    return make_config(config.dump(), "[model]");
  } catch (const base::CorruptError& error) {
    throw ConfigError(error.what(), "see the [model] section");
  }
}

}  // namespace hyperion::models
