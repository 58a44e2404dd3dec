#include "hyperion/interop/base_weights.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/read_file.h"
#include "hyperion/checkpoint/manifest.h"
#include "hyperion/checkpoint/step_folder.h"
#include "hyperion/interop/find_model.h"
#include "hyperion/interop/peft.h"

namespace hyperion::interop {
namespace {

using base::format;
using base::Path;

// A manifest holds the hash of every file of its checkpoint.
std::string checkpoint_digest(base::FileSystem& files, const Path& checkpoint) {
  base::Hasher hasher;
  hasher.update(base::read_description(files, checkpoint / checkpoint::kManifestName));
  return hasher.hex();
}

// The manifest comes last: without it a folder is no checkpoint.
std::error_code link_checkpoint(base::FileSystem& files, const Path& from, const Path& to) {
  files.create_folders(to);
  std::error_code error;
  const auto link = [&](const Path& file) {
    if (!error && !files.exists(to / file.filename()))
      std::filesystem::create_hard_link(file, to / file.filename(), error);
  };
  for (const Path& file : files.list(from))
    if (file.filename() != checkpoint::kManifestName) link(file);
  link(from / checkpoint::kManifestName);
  return error;
}

// The model beside which the adapter of this checkpoint was trained; empty: it has all weights.
std::string base_of_checkpoint(base::FileSystem& files, const Path& run, const Path& checkpoint) {
  const std::string place = (checkpoint / checkpoint::kManifestName).string();
  const auto state =
      base::parse_json(checkpoint::parse_manifest(base::read_description(files, place), place).state, place);
  if (!state.contains("adapter")) return {};
  const std::string named = parse_adapter_config(state["adapter"].dump(), place).base_model;
  const auto digest = state.find("base_digest");
  const bool known = digest != state.end() && digest->is_string();
  return find_base(files, run, named, known ? digest->get<std::string>() : std::string(), place);
}

Path told_place(const Path& run, const std::string& digest) { return run / kRunBase / (digest + ".place"); }

std::string remedy(const Path& run, const std::string& base_model) {
  const std::string put_back = format("put the old weights back, or a link to them, at {}", base_model);
  if (run.empty()) return put_back;
  return format("{}; or say where they are: hyperion resume {} --model.from=PATH", put_back, run.filename().string());
}

}  // namespace

std::string fixed_model(base::FileSystem& files, const std::string& named) {
  const std::string argument = find_model(files, named);
  const Path checkpoint = checkpoint_folder(files, argument);
  return std::filesystem::absolute(checkpoint.empty() ? Path(argument) : checkpoint).lexically_normal();
}

std::string weights_digest(base::FileSystem& files, const std::string& named) {
  const std::string argument = find_model(files, named);
  if (const Path checkpoint = checkpoint_folder(files, argument); !checkpoint.empty())
    return checkpoint_digest(files, checkpoint);
  std::vector<Path> weights;
  for (const auto& path : files.list(argument))
    if (path.extension() == ".safetensors") weights.push_back(path);
  std::sort(weights.begin(), weights.end());
  base::Hasher hasher;
  for (const auto& path : weights) hasher.update(base::MappedFile(path).bytes());
  return hasher.hex();
}

void keep_base(base::FileSystem& files, const Path& run, const std::string& base_model) {
  Path from = checkpoint_folder(files, base_model);
  while (!from.empty()) {
    const Path of_run = std::filesystem::absolute(from).lexically_normal().parent_path().parent_path();
    const std::string next = base_of_checkpoint(files, of_run, from);
    const Path to = run / kRunBase / checkpoint_digest(files, from);
    if (const auto error = link_checkpoint(files, from, to)) {
      std::error_code ignored;
      std::filesystem::remove_all(to, ignored);
      base::log_info(format("note: run {} needs {} as long as it is used; it could not be linked into the run: {}",
                            run.filename().string(), from.string(), error.message()));
    }
    from = next.empty() ? Path() : checkpoint_folder(files, next);
  }
}

void remember_base(base::FileSystem& files, const Path& run, const std::string& digest, const std::string& place) {
  if (const std::string now = weights_digest(files, place); now != digest)
    throw base::ConfigError(format("{} has other weights than run {} was trained beside: {} instead of {}", place,
                                   run.filename().string(), now, digest),
                            "name the folder that was moved");
  files.create_folders(run / kRunBase);
  base::write_atomically(files, told_place(run, digest), fixed_model(files, place) + "\n");
}

std::string find_base(base::FileSystem& files, const Path& run, const std::string& base_model,
                      const std::string& digest, const std::string& place, const std::string& recorded) {
  if (digest.empty()) return base_model;
  const bool told_otherwise = !recorded.empty() && recorded != base_model;
  std::string found;
  try {
    const std::string now = weights_digest(files, base_model);
    if (now == digest) return base_model;
    found = format("whose weights are others{}: {} instead of {}", told_otherwise ? "" : " now", now, digest);
  } catch (const base::Error& error) {
    found = format("which cannot be opened: {}", error.what());
  }
  const Path kept = run / kRunBase / digest;
  if (!run.empty() && files.exists(kept / checkpoint::kManifestName) && checkpoint_digest(files, kept) == digest)
    return kept;
  if (!run.empty() && files.exists(told_place(run, digest))) {
    std::string told = base::read_description(files, told_place(run, digest));
    while (told.ends_with('\n')) told.pop_back();
    std::error_code ignored;
    if (std::filesystem::exists(told, ignored) && weights_digest(files, told) == digest) return told;
  }
  if (told_otherwise)
    throw base::CorruptError(format("{} was trained beside {}, and not {}, {}", place, recorded, base_model, found),
                             remedy(run, recorded));
  throw base::CorruptError(format("{} was trained beside {}, {}", place, base_model, found), remedy(run, base_model));
}

}  // namespace hyperion::interop
