#include <fnmatch.h>

#include <algorithm>

#include "hyperion/base/format.h"
#include "hyperion/hub/listing.h"

namespace hyperion::hub {
namespace {

using Patterns = std::initializer_list<const char*>;

bool fits_one(const std::string& name, Patterns patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const char* pattern) { return ::fnmatch(pattern, name.c_str(), 0) == 0; });
}

// Programs in the clothes of data, and the weights of other frameworks.
bool is_foreign_weight(const std::string& name) {
  return fits_one(name, {"*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle", "*.h5", "*.msgpack", "*.onnx", "*.ot",
                         "*.npz", "*.tflite"});
}

bool is_shard(const std::string& name) { return fits_one(name, {"model-[0-9]*-of-[0-9]*.safetensors"}); }

bool is_of_model(const std::string& name) {
  if (fits_one(name, {"additional_chat_templates/*.jinja"})) return true;
  if (name.find('/') != name.npos || is_foreign_weight(name) || fits_one(name, {"*.py"})) return false;
  return fits_one(name, {"config.json", "generation_config.json", "tokenizer*", "vocab*", "merges*", "*.txt",
                         "*.tiktoken", "*.model", "special_tokens_map.json", "added_tokens.json", "chat_template*",
                         "preprocessor_config.json", "processor_config.json", "adapter_config.json", "classes.json"});
}

// As `data prepare` reads them, and the card, by which `datasets` finds its way.
bool is_of_set(const std::string& name) {
  if (name == "README.md") return true;
  std::string bare = name;
  for (const char* packing : {".gz", ".zst"})
    if (bare.ends_with(packing)) bare.resize(bare.size() - std::string_view(packing).size());
  return fits_one(bare, {"*.parquet", "*.json", "*.jsonl", "*.csv", "*.txt", "*.tar"});
}

// One form of the weights: the file that readers look for first, else its shards, else all there is.
std::vector<RemoteFile> weights_among(const std::vector<RemoteFile>& files) {
  std::vector<RemoteFile> single, shards, others;
  for (const auto& file : files) {
    if (file.name == "model.safetensors")
      single.push_back(file);
    else if (is_shard(file.name) || file.name == "model.safetensors.index.json")
      shards.push_back(file);
    else if (fits_one(file.name, {"*.safetensors"}) && file.name.find('/') == file.name.npos)
      others.push_back(file);
  }
  const bool indexed = std::any_of(shards.begin(), shards.end(), [](const auto& file) { return !is_shard(file.name); });
  return !single.empty() ? single : indexed ? shards : others;
}

[[noreturn]] void refuse_foreign(const Repo& repo, const std::string& name) {
  throw base::ConfigError(
      base::format(
          "{} has no safetensors, only weights such as {}: a pickle is a program, not data, and the others are "
          "not read here; none is fetched",
          repo.text(), name),
      base::format("a conversion often waits among its pull requests: hyperion fetch {}@refs/pr/1; or convert it where "
                   "you trust the file, with save_pretrained of transformers",
                   repo.name));
}

}  // namespace

std::vector<RemoteFile> wanted_files(const Repo& repo, const std::vector<RemoteFile>& files,
                                     const std::vector<std::string>& only) {
  const bool model = repo.kind == RepoKind::model;
  std::vector<RemoteFile> wanted;
  for (const auto& file : files)
    if (model ? is_of_model(file.name) : is_of_set(file.name)) wanted.push_back(file);
  if (model) {
    const auto weights = weights_among(files);
    const auto foreign =
        std::find_if(files.begin(), files.end(), [](const auto& file) { return is_foreign_weight(file.name); });
    if (weights.empty() && foreign != files.end()) refuse_foreign(repo, foreign->name);
    wanted.insert(wanted.end(), weights.begin(), weights.end());
  }
  const auto left_out = [&](const RemoteFile& file) {
    return !only.empty() && std::none_of(only.begin(), only.end(), [&](const std::string& pattern) {
      return ::fnmatch(pattern.c_str(), file.name.c_str(), 0) == 0;
    });
  };
  wanted.erase(std::remove_if(wanted.begin(), wanted.end(), left_out), wanted.end());
  if (wanted.empty())
    throw base::ConfigError(
        base::format("{} holds nothing to fetch{}", repo.text(), only.empty() ? "" : " that --only names"),
        model ? "of a model safetensors, configuration and tokenizer are fetched; --set fetches a data set"
              : "of a set parquet, json, jsonl, csv, txt and tar files are fetched, packed with gzip or zstd too");
  return wanted;
}

}  // namespace hyperion::hub
