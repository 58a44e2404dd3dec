#include "hyperion/interop/weight_files.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/read_file.h"
#include "hyperion/base/shell.h"

namespace hyperion::interop {
namespace {

using base::CorruptError;
using base::format;
using base::Json;
using base::Path;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

[[noreturn]] void refuse_without_weights(base::FileSystem& files, const Path& folder) {
  for (const Path& path : files.list(folder))
    if (is_pickle(path))
      throw CorruptError(format("{} holds its weights in {}, a pickle: a program, not data, and never read here",
                                folder.string(), path.filename().string()),
                         conversion_hint(folder));
  throw CorruptError(format("{} holds neither {} nor {}", folder.string(), kSingle, kIndex));
}

// Name of a tensor -> name of its file, every one a plain name in this folder.
std::map<std::string, std::string> read_index(base::FileSystem& files, const Path& index) {
  const Json json = base::parse_json(base::read_description(files, index), index.string());
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (map == json.end() || !map->is_object()) throw CorruptError(format("{} has no weight_map", index.string()));
  std::map<std::string, std::string> names;
  for (const auto& [name, file] : map->items()) {
    const std::string text = file.is_string() ? file.get<std::string>() : "";
    if (!text.ends_with(".safetensors") || Path(text).filename() != text || text.find('\0') != text.npos)
      throw CorruptError(
          format("{}: tensor \"{}\" is not in a .safetensors file of this folder", index.string(), name));
    names[name] = text;
  }
  return names;
}

}  // namespace

bool is_pickle(const Path& path) {
  const std::string ending = path.extension().string();
  for (const char* each : {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"})
    if (ending == each) return true;
  return false;
}

std::string missing_weight_file(base::FileSystem& files, const Path& folder) {
  if (files.exists(folder / kSingle)) return {};
  if (!files.exists(folder / kIndex)) return kSingle;
  for (const auto& [name, file] : read_index(files, folder / kIndex))
    if (!files.exists(folder / file)) return file;
  return {};
}

std::string conversion_hint(const Path& folder) {
  std::string name = folder.lexically_normal().string();
  if (name.size() > 1 && name.ends_with('/')) name.pop_back();
  return format(
      "convert it once where you trust the file: python3 -c 'import sys; from transformers import AutoModelForCausalLM "
      "as M; M.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[2])' {} {}",
      base::shell_quoted(name), base::shell_quoted(name + "-safetensors"));
}

WeightFiles::WeightFiles(base::FileSystem& files, const Path& folder) {
  if (files.exists(folder / kSingle)) {
    const auto& file = files_.emplace(kSingle, folder / kSingle).first->second;
    for (const auto& name : file.names()) file_of_[name] = &file;
  } else if (files.exists(folder / kIndex)) {
    open_shards(files, folder, folder / kIndex);
  } else {
    refuse_without_weights(files, folder);
  }
}

void WeightFiles::open_shards(base::FileSystem& files, const Path& folder, const Path& index) {
  const auto map = read_index(files, index);
  std::string absent, unnamed;
  for (const auto& [name, file] : map) {
    if (!files_.contains(file)) files_.emplace(file, folder / file);
    const auto& shard = files_.at(file);
    if (shard.has(name)) {
      file_of_[name] = &shard;
    } else {
      absent += format("\n  {} is not in {}", name, file);
    }
  }
  for (const auto& [file, shard] : files_)
    for (const auto& name : shard.names())
      if (const auto found = map.find(name); found == map.end() || found->second != file)
        unnamed += format("\n  {} in {} is not in the index", name, file);
  if (!(absent + unnamed).empty())
    throw CorruptError(format("{} does not agree with its shards:{}{}", index.string(), absent, unnamed));
}

int64_t WeightFiles::elements(const std::string& name) const {
  const auto& shape = file(name).shape(name);
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::vector<std::string> WeightFiles::names() const {
  std::vector<std::string> list;
  for (const auto& [name, file] : file_of_) list.push_back(name);
  return list;
}

bool is_weight_type(at::ScalarType type) { return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf; }

std::string shape_text(at::IntArrayRef shape) {
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

}  // namespace hyperion::interop
