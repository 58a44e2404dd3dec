#include "hyperion/interop/named_checkpoint.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/read_file.h"
#include "hyperion/checkpoint/manifest.h"
#include "hyperion/checkpoint/step_folder.h"

namespace hyperion::interop {
namespace {

using base::format;
using base::Path;
using Entries = std::vector<checkpoint::CheckpointEntry>;

// Nothing where it is damaged, or was removed meanwhile.
std::optional<checkpoint::Manifest> manifest_of(base::FileSystem& files, const checkpoint::CheckpointEntry& entry) {
  const Path place = entry.path / checkpoint::kManifestName;
  try {
    return checkpoint::parse_manifest(base::read_description(files, place), place.string());
  } catch (const base::Error&) {
    return {};
  }
}

// A folder may be a copy of another step's, or a link to it. One whose manifest is damaged is itself: to load it tells.
bool holds_its_step(base::FileSystem& files, const checkpoint::CheckpointEntry& entry) {
  const auto manifest = manifest_of(files, entry);
  return !manifest || manifest->step == entry.step;
}

struct RecordedBest {
  int64_t now = 0, best = 0;  // steps
};

// As run.json has it: written after the checkpoint, and there when that was removed. A run that failed may have been
// about to write that checkpoint.
std::optional<RecordedBest> recorded_best(base::FileSystem& files, const Path& run) {
  const Path place = run / "run.json";
  try {
    const auto record = base::parse_json(base::read_description(files, place), place.string());
    const auto& best = record.at("best_step");
    if (record.at("status") == "failed" || !best.is_number_integer()) return {};
    return RecordedBest{record.at("step").get<int64_t>(), best.get<int64_t>()};
  } catch (const base::Error&) {
    return {};
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

// Every checkpoint knows which one was the best when it was written: the newest that can be read is right, but where a
// newer one was removed.
std::optional<int64_t> best_step(base::FileSystem& files, const Path& run, const Entries& entries) {
  const auto recorded = recorded_best(files, run);
  for (const auto& entry : entries) {
    const auto manifest = manifest_of(files, entry);
    if (!manifest || manifest->step != entry.step) continue;
    if (recorded && recorded->now > entry.step) break;
    try {
      const auto state = base::parse_json(manifest->state, entry.path.string());
      return state.at("validations").at("best").at("step").get<int64_t>();
    } catch (const base::Error&) {
      continue;  // its state is damaged
    } catch (const nlohmann::json::exception&) {
      return {};
    }
  }
  return recorded ? std::optional(recorded->best) : std::nullopt;
}

// "there are r@12, r@2", of those that are what they are called.
std::string others_text(base::FileSystem& files, const std::string& run, const Entries& entries) {
  std::string there;
  for (const auto& entry : entries)
    if (holds_its_step(files, entry)) there += format("{}{}@{}", there.empty() ? "" : ", ", run, entry.step);
  return there.empty() ? "" : format("there are {}", there);
}

}  // namespace

std::optional<Path> named_checkpoint(base::FileSystem& files, const std::string& word) {
  const size_t at = word.rfind('@');
  if (at == word.npos || at == 0) return {};
  const std::string run = word.substr(0, at), name = word.substr(at + 1);
  const auto of_that_name = named_run(files, run);
  if (!of_that_name) return {};
  const Path& folder = *of_that_name;
  const Entries entries = checkpoint::list_checkpoints(files, folder / "checkpoints");
  const auto refuse = [&](const std::string& what) {
    const std::string others = others_text(files, run, entries);
    throw base::ConfigError(format("run {} has no {}", run, what),
                            others.empty() ? "it has no checkpoint yet" : others);
  };
  std::optional<int64_t> step;
  if (name == "best") {
    step = best_step(files, folder, entries);
    if (!step) refuse("best checkpoint: none was written at a validation (checkpoint.best, checkpoint.every)");
  } else if (name == "last" && !entries.empty()) {
    step = entries.front().step;
  } else if (const auto parsed = checkpoint::parse_step_folder("step-" + name)) {
    step = parsed->step;
  }
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const auto& one) { return one.step == step; });
  if (found != entries.end() && holds_its_step(files, *found)) return found->path;
  if (step && name == "best") {
    const std::string others = others_text(files, run, entries);
    throw base::ConfigError(
        format("the best checkpoint of run {}, step {}, is not there any more", run, *step),
        others.empty() ? "the run has no checkpoint any more" : format("{}@last is the newest; {}", run, others));
  }
  if (found != entries.end())
    refuse(format("checkpoint of step {} any more: {} holds another step's", *step, found->path.string()));
  refuse(step ? format("checkpoint of step {} any more", *step) : "checkpoint @" + name);
  return {};
}

}  // namespace hyperion::interop
