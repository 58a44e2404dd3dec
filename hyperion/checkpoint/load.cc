#include "hyperion/checkpoint/load.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/read_file.h"
#include "hyperion/checkpoint/manifest.h"
#include "hyperion/checkpoint/step_folder.h"

namespace hyperion::checkpoint {
namespace {

using base::CorruptError;
using base::format;
using base::Path;

std::shared_ptr<const base::MappedFile> map_verified(const Path& path, const ManifestFile& expected) {
  auto mapping = std::make_shared<const base::MappedFile>(path);
  verify_content(expected, mapping->bytes(), path.string());
  return mapping;
}

// A folder renamed by hand would otherwise change which checkpoint is the newest.
void check_step(const Path& step_folder, int64_t step) {
  const auto name = parse_step_folder(step_folder.filename().string());
  if (name && name->step != step)
    throw CorruptError(format("{} holds the manifest of step {}", step_folder.string(), step));
}

// Tensors of which several shards hold slices.
class Assembly {
 public:
  // False: `name` is no slice.
  bool add(const SafetensorsFile& file, const std::string& name, const Path& path) {
    const auto found = file.metadata().find(name);
    if (found == file.metadata().end()) return false;
    const std::string place = format("{}: slice \"{}\"", path.string(), name);
    Origin origin = origin_of(found->second, place);
    const at::Tensor part = file.tensor(name);
    LoadedCheckpoint::Sliced& whole = wholes_[origin.of];
    if (whole.parts.empty()) whole.shape = origin.shape, whole.type = part.scalar_type();
    if (whole.shape != origin.shape || whole.type != part.scalar_type() || part.dim() != 1)
      throw CorruptError(place + " is not of the tensor that the others are of");
    if (!whole.parts.emplace(origin.begin, part).second) throw CorruptError(place + " is also in another shard");
    return true;
  }

  void finish(LoadedCheckpoint& loaded) {
    for (const auto& [name, whole] : wholes_) {
      int64_t count = 1, end = 0;
      for (const int64_t size : whole.shape) count *= size;
      for (const auto& [begin, part] : whole.parts) {
        if (begin != end)
          throw CorruptError(format("{}: the slices of tensor \"{}\" leave a hole or overlap at element {}",
                                    loaded.path.string(), name, std::min(begin, end)));
        end += part.numel();
      }
      if (end != count)
        throw CorruptError(format("{}: the slices of tensor \"{}\" hold {} of its {} elements", loaded.path.string(),
                                  name, end, count));
      if (loaded.tensors.count(name) != 0)
        throw CorruptError(format("{}: tensor \"{}\" is there whole and in slices", loaded.path.string(), name));
    }
    loaded.sliced = std::move(wholes_);
  }

 private:
  struct Origin {
    std::string of;
    int64_t begin;
    std::vector<int64_t> shape;
  };

  static Origin origin_of(const std::string& text, const std::string& place) {
    constexpr int64_t kMost = int64_t{1} << 62;
    try {
      const auto json = base::parse_json(text, place);
      Origin origin{json.at("of").get<std::string>(), json.at("begin").get<int64_t>(),
                    json.at("shape").get<std::vector<int64_t>>()};
      int64_t count = 1;
      for (const int64_t size : origin.shape) {
        if (size < 0 || (size > 0 && count > kMost / size)) throw CorruptError(place + " names an impossible shape");
        count *= size;
      }
      if (origin.begin < 0) throw CorruptError(place + " begins before its tensor");
      return origin;
    } catch (const nlohmann::json::exception&) {
      throw CorruptError(place + " does not say what it is a slice of");
    }
  }

  std::map<std::string, LoadedCheckpoint::Sliced> wholes_;
};

void add_tensors(LoadedCheckpoint& loaded, Assembly& assembly, const SafetensorsFile& file, const Path& path) {
  for (const std::string& name : file.names()) {
    if (assembly.add(file, name, path)) continue;
    if (!loaded.tensors.emplace(name, file.tensor(name)).second)
      throw CorruptError(format("{}: tensor \"{}\" is also in another shard", path.string(), name));
  }
}

}  // namespace

namespace {

// What the tensor of that name is in, whole or in slices; one of the two is null.
std::pair<const at::Tensor*, const LoadedCheckpoint::Sliced*> find(const LoadedCheckpoint& loaded,
                                                                   const std::string& name) {
  if (const auto found = loaded.tensors.find(name); found != loaded.tensors.end()) return {&found->second, nullptr};
  if (const auto found = loaded.sliced.find(name); found != loaded.sliced.end()) return {nullptr, &found->second};
  throw CorruptError(format("{} holds no tensor \"{}\"", loaded.path.string(), name));
}

}  // namespace

at::Tensor LoadedCheckpoint::tensor(const std::string& name) const {
  const auto [whole, slices] = find(*this, name);
  if (whole != nullptr) return *whole;
  const auto together = at::empty(slices->shape, slices->type);
  copy_stretch(name, 0, together.view(-1));
  return together;
}

std::vector<int64_t> LoadedCheckpoint::shape(const std::string& name) const {
  const auto [whole, slices] = find(*this, name);
  return whole != nullptr ? whole->sizes().vec() : slices->shape;
}

at::ScalarType LoadedCheckpoint::type(const std::string& name) const {
  const auto [whole, slices] = find(*this, name);
  return whole != nullptr ? whole->scalar_type() : slices->type;
}

void LoadedCheckpoint::copy_stretch(const std::string& name, int64_t begin, const at::Tensor& out) const {
  const auto [whole, slices] = find(*this, name);
  const int64_t end = begin + out.numel();
  if (whole != nullptr) {
    out.copy_(whole->reshape(-1).narrow(0, begin, out.numel()));
    return;
  }
  for (auto part = slices->parts.begin(); part != slices->parts.end(); ++part) {
    const int64_t from = std::max(begin, part->first), to = std::min(end, part->first + part->second.numel());
    if (from < to) out.narrow(0, from - begin, to - from).copy_(part->second.narrow(0, from - part->first, to - from));
  }
}

LoadedCheckpoint load_checkpoint(base::FileSystem& files, const Path& step_folder) {
  const base::OperationScope scope("checkpoint.load");
  const Path manifest_path = step_folder / kManifestName;
  Manifest manifest = parse_manifest(base::read_description(files, manifest_path), manifest_path.string());
  check_step(step_folder, manifest.step);
  std::vector<std::pair<Path, std::shared_ptr<const base::MappedFile>>> verified;
  for (const ManifestFile& file : manifest.files)
    verified.emplace_back(step_folder / file.name, map_verified(step_folder / file.name, file));
  LoadedCheckpoint loaded;
  loaded.step = manifest.step;
  loaded.path = step_folder;
  loaded.created = std::move(manifest.created);
  loaded.version = std::move(manifest.version);
  loaded.state = std::move(manifest.state);
  Assembly assembly;
  for (const auto& [path, mapping] : verified)
    if (path.extension() == ".safetensors") add_tensors(loaded, assembly, SafetensorsFile(mapping, path), path);
  assembly.finish(loaded);
  return loaded;
}

LoadedCheckpoint load_newest(base::FileSystem& files, const Path& folder,
                             const std::function<void(const LoadedCheckpoint&)>& check) {
  const auto entries = list_checkpoints(files, folder);
  if (entries.empty())
    throw base::ConfigError(format("no checkpoint in {}", folder.string()), "name a run that has saved at least one");
  std::string wrong;
  for (size_t i = 0; i < entries.size(); ++i) {
    try {
      auto loaded = load_checkpoint(files, entries[i].path);
      if (check) check(loaded);
      return loaded;
    } catch (const base::Error& error) {
      // A run that goes on saving may have removed or replaced it since it was listed: there is a newer one now.
      if (!files.exists(entries[i].path)) return load_newest(files, folder, check);
      wrong += format("\n  step {}: {}", entries[i].step, error.what());
      if (i + 1 < entries.size())
        base::log_warn(format("checkpoint of step {} is bad, falling back to step {}: {}", entries[i].step,
                              entries[i + 1].step, error.what()));
    }
  }
  throw CorruptError(format("no checkpoint in {} is good:{}", folder.string(), wrong),
                     "restore a checkpoint folder from a copy, or start a new run");
}

}  // namespace hyperion::checkpoint
