#include "hyperion/interop/named_checkpoint.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/read_file.h"
#include "hyperion/checkpoint/manifest.h"
#include "hyperion/checkpoint/step_folder.h"
#include "hyperion/interop/open_model.h"

namespace hyperion::interop {
namespace {

using base::format;
using base::Path;
using Entries = std::vector<checkpoint::CheckpointEntry>;

// Every checkpoint knows which one was the best when it was written: the newest that can be read is right.
std::optional<int64_t> best_step(base::FileSystem& files, const Entries& entries) {
  for (const auto& entry : entries) {
    const Path place = entry.path / checkpoint::kManifestName;
    try {
      const auto text = checkpoint::parse_manifest(base::read_description(files, place), place.string()).state;
      return base::parse_json(text, place.string()).at("validations").at("best").at("step").get<int64_t>();
    } catch (const base::Error&) {
      continue;  // damaged, or removed meanwhile
    } catch (const nlohmann::json::exception&) {
      return {};
    }
  }
  return {};
}

[[noreturn]] void refuse_checkpoint(const std::string& run, const Entries& entries, const std::string& what) {
  std::string there;
  for (const auto& entry : entries) there += format("{}{}@{}", there.empty() ? "" : ", ", run, entry.step);
  throw base::ConfigError(format("run {} has no {}", run, what),
                          there.empty() ? "it has no checkpoint yet" : format("there are {}", there));
}

}  // namespace

std::optional<Path> named_checkpoint(base::FileSystem& files, const std::string& word) {
  const size_t at = word.rfind('@');
  if (at == word.npos || at == 0) return {};
  const std::string run = word.substr(0, at), name = word.substr(at + 1);
  const auto is_run = [&](const Path& path) { return files.exists(path / "config.resolved.toml"); };
  const Path named = runs_folder() / run, folder = is_run(named) ? named : Path(run);
  if (!is_run(folder)) return {};
  const Entries entries = checkpoint::list_checkpoints(files, folder / "checkpoints");
  std::optional<int64_t> step;
  if (name == "best") {
    step = best_step(files, entries);
    if (!step)
      refuse_checkpoint(run, entries,
                        "best checkpoint: none was written at a validation (checkpoint.best, checkpoint.every)");
  } else if (name == "last" && !entries.empty()) {
    step = entries.front().step;
  } else if (const auto parsed = checkpoint::parse_step_folder("step-" + name)) {
    step = parsed->step;
  }
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const auto& one) { return one.step == step; });
  if (found == entries.end())
    refuse_checkpoint(run, entries, step ? format("checkpoint of step {} any more", *step) : "checkpoint @" + name);
  return found->path;
}

}  // namespace hyperion::interop
