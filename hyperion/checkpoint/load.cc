#include "hyperion/checkpoint/load.h"

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
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

void add_tensors(LoadedCheckpoint& loaded, const SafetensorsFile& file, const Path& path) {
  for (const std::string& name : file.names())
    if (!loaded.tensors.emplace(name, file.tensor(name)).second)
      throw CorruptError(format("{}: tensor \"{}\" is also in another shard", path.string(), name));
}

}  // namespace

const at::Tensor& LoadedCheckpoint::tensor(const std::string& name) const {
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw CorruptError(format("{} holds no tensor \"{}\"", path.string(), name));
  return found->second;
}

LoadedCheckpoint load_checkpoint(base::FileSystem& files, const Path& step_folder) {
  const base::OperationScope scope("checkpoint.load");
  const Path manifest_path = step_folder / kManifestName;
  Manifest manifest = parse_manifest(files.read(manifest_path), manifest_path.string());
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
  for (const auto& [path, mapping] : verified)
    if (path.extension() == ".safetensors") add_tensors(loaded, SafetensorsFile(mapping, path), path);
  return loaded;
}

LoadedCheckpoint load_newest(base::FileSystem& files, const Path& folder) {
  const auto entries = list_checkpoints(files, folder);
  if (entries.empty())
    throw base::ConfigError(format("no checkpoint in {}", folder.string()), "name a run that has saved at least one");
  std::string wrong;
  for (size_t i = 0; i < entries.size(); ++i) {
    try {
      return load_checkpoint(files, entries[i].path);
    } catch (const base::Error& error) {
      // A run that goes on saving may have removed or replaced it since it was listed: there is a newer one now.
      if (!files.exists(entries[i].path)) return load_newest(files, folder);
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
