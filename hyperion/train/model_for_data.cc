#include "hyperion/train/model_for_data.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/words.h"
#include "hyperion/data/images.h"
#include "hyperion/models/image_classes.h"
#include "hyperion/models/registry.h"

namespace hyperion::train {
namespace {

using base::ConfigError;
using base::format;
using base::Json;

// As transformers calls a class that has no name.
std::string unnamed_class(size_t label) { return format("LABEL_{}", label); }

std::vector<std::string> classes_in(const Json& config) {
  std::vector<std::string> names;
  const auto found = config.find("id2label");
  for (size_t i = 0; found != config.end() && i < found->size(); ++i)
    names.push_back(found->at(std::to_string(i)).get<std::string>());
  return names;
}

bool has_names(const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] != unnamed_class(i)) return true;
  return false;
}

// Saved without one: how many classes such a config.json has, means nothing. That it is made is said where it is.
bool has_head(const Json& config) {
  const auto found = config.find("architectures");
  if (found == config.end() || !found->is_array() || found->empty() || !found->front().is_string()) return true;
  return found->front().get<std::string>().ends_with("ForImageClassification");
}

std::string first_other_class(const std::vector<std::string>& there, const std::vector<std::string>& here) {
  const size_t i = std::mismatch(there.begin(), there.end(), here.begin(), here.end()).first - there.begin();
  return format("class {}, \"{}\" there, is \"{}\" here", i, there.at(i), here.at(i));
}

ModelForData for_images(const RunConfig& config, Json json, const data::ImageSource& images, bool headed) {
  const auto count = static_cast<size_t>(images.classes()), wanted = static_cast<size_t>(config.model.classes);
  if (count < 2)
    throw ConfigError(format("data.source = \"{}\" has images of one class, which there is nothing to tell from",
                             base::word_of(config.data.source)),
                      "give it a folder for each of two classes or more");
  if (wanted > 0 && wanted < count)
    throw ConfigError(format("model.classes = {}, and the data has {} classes", wanted, count),
                      format("set model.classes = {}, or leave it out: it follows the data", count));
  auto names = images.class_names();
  while (names.size() < std::max(count, wanted)) names.push_back(unnamed_class(names.size()));
  const auto before = classes_in(json);
  ModelForData fitted;
  const std::string& from = config.model.from;
  if (!from.empty() && headed && before.size() != names.size())
    fitted.said.push_back(
        format("{} and model.from = \"{}\" has {}: it gets a new head",
               wanted > 0 ? format("model.classes = {},", wanted) : format("the data has {} classes", names.size()),
               from, before.size()));
  else if (!from.empty() && headed && has_names(before) && before != names)
    fitted.said.push_back(
        format("the head of model.from = \"{}\" is kept; {}", from, first_other_class(before, names)));
  if (wanted > count)
    fitted.said.push_back(format("model.classes = {}, and the data has {} classes: {} will never be seen", wanted,
                                 count, wanted - count));
  models::write_classes(json, static_cast<int64_t>(names.size()), names);
  fitted.config = json.dump();
  return fitted;
}

ModelForData for_tokens(const RunConfig& config, Json json, const data::Source& tokens,
                        const std::vector<int64_t>& new_tokens) {
  ModelForData fitted;
  const std::string& from = config.model.from;
  const int64_t before = json.at("vocab_size"), wanted = config.model.vocabulary;
  const int64_t needed = wanted > 0 ? wanted : tokens.vocabulary();
  if (wanted > 0 && wanted < std::max(before, tokens.vocabulary()))
    throw ConfigError(format("model.vocabulary = {}, and {}", wanted,
                             wanted < before ? format("model.from = \"{}\" has {} token ids", from, before)
                                             : format("the data has {} token ids", tokens.vocabulary())),
                      "leave it out: the model grows to what the data has, and never shrinks");
  if (needed > before) {
    fitted.said.push_back(
        format("the data has {} token ids and model.from = \"{}\" {}: it gets {} new, which begin as "
               "the mean of the others",
               needed, from, before, needed - before));
    json["vocab_size"] = needed;
  }
  const auto spare = std::count_if(new_tokens.begin(), new_tokens.end(), [&](int64_t id) { return id < before; });
  if (spare > 0)
    fitted.said.push_back(format(
        "the data has {} new {} that model.from = \"{}\" has spare rows for: they begin as the mean of the others",
        spare, spare == 1 ? "token" : "tokens", from));
  fitted.config = json.dump();
  return fitted;
}

}  // namespace

ModelForData model_for_data(const RunConfig& config, const std::string& model, const data::Split& split,
                            const std::vector<int64_t>& new_tokens) {
  const Json whole = base::parse_json(model, "the model");
  Json json = base::parse_json(models::make_config(model, "the model"), "the model");
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})  // of no use here, but to whoever gets it
    if (const auto found = whole.find(key); found != whole.end() && json.value(key, Json()).is_null())
      json[key] = *found;
  const bool takes_images = models::config_shape(model, "the model", config.train.length).context == 0;
  if (split.train_images && takes_images) return for_images(config, json, *split.train_images, has_head(whole));
  if (split.train && !takes_images && !config.model.from.empty() && json.contains("vocab_size"))
    return for_tokens(config, json, *split.train, new_tokens);
  return {json.dump()};
}

}  // namespace hyperion::train
