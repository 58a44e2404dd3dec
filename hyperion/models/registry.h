// Models by the name Hugging Face's config.json gives them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hyperion/models/model.h"

namespace hyperion::models {

// How a family is made from the text of a config.json. Every function throws CorruptError that starts with `place` on a
// field that is not known here.
struct Family {
  const char* model_type;
  const char* architecture;  // the class `transformers` loads such a model into
  std::unique_ptr<Model> (*make)(const std::string& text, const std::string& place);
  std::string (*config)(const std::string& text, const std::string& place);
  strategy::ModelShape (*shape)(const std::string& text, const std::string& place, int64_t length);
};

// A family from how it reads a config and how it makes a model of one. The config's own namespace has
// to_json(config) and shape_of(config, length).
template <auto read, auto create>
constexpr Family family(const char* model_type, const char* architecture) {
  return {model_type, architecture,
          [](const std::string& text, const std::string& place) -> std::unique_ptr<Model> {
            return create(read(text, place));
          },
          [](const std::string& text, const std::string& place) { return to_json(read(text, place)); },
          [](const std::string& text, const std::string& place, int64_t length) {
            return shape_of(read(text, place), length);
          }};
}

// Makes a family of one's own known by its model_type to every command of this program; call it first in main.
void add_family(const Family& family);

// From the text of a config.json; parameters are not set yet. Throws CorruptError that starts with `place` on a
// model_type or a field that is not known here.
std::unique_ptr<Model> make_model(const std::string& config_json, const std::string& place);

// The same config with every field this family knows written out.
std::string make_config(const std::string& config_json, const std::string& place);

// Without making it: no memory is taken. Throws as make_model does.
strategy::ModelShape config_shape(const std::string& config_json, const std::string& place, int64_t length);

// The class `transformers` loads such a model into: "GPT2LMHeadModel". model_type must be known here.
std::string architecture_of(const std::string& model_type);

}  // namespace hyperion::models
