#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/checkpoint/safetensors.h"
#include "hyperion/interop/hugging_face.h"
#include "hyperion/models/registry.h"

namespace hyperion::interop {
namespace {

using base::Json;
using base::Path;

std::string type_text(at::ScalarType type) {
  return type == at::kBFloat16 ? "bfloat16" : type == at::kHalf ? "float16" : "float32";
}

std::string exported_config(const std::string& config, at::ScalarType type) {
  Json json = base::parse_json(config, "the model's config");
  json["architectures"] = {models::architecture_of(json.at("model_type").get<std::string>())};
  json["dtype"] = type_text(type);
  json.erase("torch_dtype");  // the older name of the same field
  return json.dump(2) + "\n";
}

void copy_tokenizer(base::FileSystem& files, const Path& source, const Path& to) {
  for (const char* name :
       {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
        "merges.txt", "tokenizer.model", "chat_template.jinja", "generation_config.json"})
    if (files.exists(source / name)) base::write_atomically(files, to / name, files.read(source / name));
}

}  // namespace

void export_hugging_face(base::FileSystem& files, models::LanguageModel& model, const std::string& config,
                         const Path& source, const Path& to) {
  const base::OperationScope scope("interop.export");
  const Path target = to.has_filename() ? to : to.parent_path();
  if (files.exists(target))
    throw base::ConfigError(base::format("{} already exists", target.string()),
                            "name a folder that does not, or remove that one");
  std::vector<checkpoint::NamedTensor> tensors;
  for (const auto& parameter : model.parameters()) tensors.push_back({parameter.name, parameter.tensor});
  const Path partial = base::partial_path(target);
  try {
    files.create_folders(partial);
    checkpoint::write_safetensors(files, partial / "model.safetensors", tensors, {{"format", "pt"}});
    if (!source.empty()) copy_tokenizer(files, source, partial);
    base::write_atomically(files, partial / "config.json",
                           exported_config(config, tensors.front().tensor.scalar_type()));
    files.rename(partial, target);
  } catch (...) {
    try {
      files.remove_all(partial);
    } catch (const base::FileError&) {  // the first failure is the one to tell
    }
    throw;
  }
}

}  // namespace hyperion::interop
