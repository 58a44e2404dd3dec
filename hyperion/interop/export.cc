#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/checkpoint/safetensors.h"
#include "hyperion/interop/generation_config.h"
#include "hyperion/interop/hugging_face.h"
#include "hyperion/interop/new_folder.h"
#include "hyperion/models/registry.h"

namespace hyperion::interop {
namespace {

using base::Json;
using base::Path;

std::string type_text(at::ScalarType type) {
  return type == at::kBFloat16 ? "bfloat16" : type == at::kHalf ? "float16" : "float32";
}

std::string exported_config(const std::string& config, at::ScalarType type, const std::vector<int64_t>& ends) {
  Json json = base::parse_json(config, "the model's config");
  json["architectures"] = {models::architecture_of(json.at("model_type").get<std::string>())};
  json["dtype"] = type_text(type);
  json.erase("torch_dtype");  // the older name of the same field
  if (!ends.empty() && (!json.contains("eos_token_id") || json["eos_token_id"].is_null()))
    json["eos_token_id"] = ends.front();
  return json.dump(2) + "\n";
}

// One type for all, as transformers writes a model, though some tensors are kept wider here; counts stay whole numbers.
std::vector<checkpoint::NamedTensor> stored_tensors(models::Model& model) {
  const auto parameters = model.parameters();
  const auto type = parameters.front().tensor.scalar_type();
  std::vector<checkpoint::NamedTensor> tensors;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    tensors.push_back({model.stored_name(name), tensor.is_floating_point() ? tensor.detach().to(type) : tensor});
  };
  for (const auto& parameter : parameters) add(parameter.name, parameter.tensor);
  for (const auto& buffer : model.buffers()) add(buffer.name, buffer.tensor);
  return tensors;
}

void copy_files(base::FileSystem& files, const Path& source, const Path& to, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (files.exists(source / name)) base::write_atomically(files, to / name, files.read(source / name));
}

}  // namespace

void copy_inputs(base::FileSystem& files, const Path& source, const Path& to) {
  copy_files(files, source, to,
             {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
              "merges.txt", "tokenizer.model", "chat_template.jinja", "preprocessor_config.json"});
}

// Keys of our own say what Hugging Face's classes cannot.
std::string export_obstacle(const std::string& config) {
  const Json json = base::parse_json(config, "the model's config");
  for (const auto& [key, value] : json.items())
    if (key.starts_with("hyperion_"))
      return base::format("the model cannot be exported: transformers has no {} = {}", key, value.dump());
  return {};
}

void export_hugging_face(base::FileSystem& files, models::Model& model, const Path& to, const ExportedWith& with) {
  const base::OperationScope scope("exporting a model");
  write_new_folder(files, to, [&](const Path& partial) {
    if (const auto reason = export_obstacle(with.config); !reason.empty())
      throw base::ConfigError(reason, "it can be trained, evaluated and probed here");
    checkpoint::write_safetensors(files, partial / "model.safetensors", stored_tensors(model), {{"format", "pt"}});
    if (!with.source.empty()) copy_inputs(files, with.source, partial);
    if (const auto text = generation_config(files, with.base_folder, with.source); !text.empty())
      base::write_atomically(files, partial / kGenerationConfig, text);
    base::write_atomically(files, partial / "config.json",
                           exported_config(with.config, model.parameters().front().tensor.scalar_type(), with.ends));
  });
}

}  // namespace hyperion::interop
