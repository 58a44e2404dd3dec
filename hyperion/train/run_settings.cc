#include "hyperion/train/run_settings.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/read_file.h"
#include "hyperion/checkpoint/manifest.h"
#include "hyperion/checkpoint/step_folder.h"
#include "hyperion/train/config.h"
#include "hyperion/train/run_folder.h"
#include "hyperion/train/run_state.h"

namespace hyperion::train {
namespace {

using base::format;
using base::Path;

// Nothing where the manifest is damaged, or of an older version: those knew only a few settings.
std::optional<std::string> toml_of_checkpoint(base::FileSystem& files, const Path& checkpoint) {
  try {
    RunConfig config;
    auto settings = bind(config);
    apply_settings(read_known_settings(files, checkpoint), settings, checkpoint.string());
    if (settings.at("data.source").origin == "default") return {};
    return settings.toml(false);
  } catch (const base::Error&) {
    return {};
  }
}

// Nothing where the file is not there, or holds only white space.
std::string text_unless_lost(base::FileSystem& files, const Path& path) {
  if (!files.exists(path)) return {};
  std::string text = base::read_description(files, path);
  return text.find_first_not_of(" \t\r\n") == text.npos ? std::string() : text;
}

struct KnownSettings {
  std::string toml;
  Path checkpoint;
};

std::optional<KnownSettings> find_known(base::FileSystem& files, const RunFolder& run) {
  for (const auto& entry : checkpoint::list_checkpoints(files, run.checkpoints()))
    if (auto toml = toml_of_checkpoint(files, entry.path)) return KnownSettings{*std::move(toml), entry.path};
  return {};
}

KnownSettings newest_known(base::FileSystem& files, const RunFolder& run) {
  if (auto known = find_known(files, run)) return *std::move(known);
  throw base::ConfigError(
      format("{} is {}, and no checkpoint of run {} has its settings", run.config().string(),
             files.exists(run.config()) ? "empty" : "not there any more", run.name()),
      format("put it back; or train anew: under another name, or after `hyperion runs rm {}`", run.name()));
}

}  // namespace

void apply_run_settings(base::FileSystem& files, const Path& run, base::Settings& settings) {
  const auto place = RunFolder::join(run);
  const std::string own = text_unless_lost(files, place.config());
  if (own.empty()) return settings.read_toml(newest_known(files, place).toml, place.config().string());
  try {
    settings.read_toml(own, place.config().string());
  } catch (const base::ConfigError& error) {
    if (!find_known(files, place)) throw;
    throw base::ConfigError(
        error.what(),
        format("put it right, or remove it: `hyperion resume {}` writes it again from the checkpoint", place.name()));
  }
}

void restore_run_settings(base::FileSystem& files, const Path& run) {
  const auto place = RunFolder::join(run);
  if (!text_unless_lost(files, place.config()).empty()) return;
  const char* state = files.exists(place.config()) ? "empty" : "gone";
  const auto known = newest_known(files, place);
  base::write_atomically(files, place.config(), known.toml);
  base::log_warn(format("{} was {}, and is written again as {} has it", place.config().string(), state,
                        known.checkpoint.string()));
}

std::string read_run_model(base::FileSystem& files, const Path& run) {
  const Path path = RunFolder::join(run).model();
  std::string text = text_unless_lost(files, path);
  try {
    if (!text.empty()) base::parse_json(text, path.string());
  } catch (const base::CorruptError& error) {
    throw base::CorruptError(error.what(), "remove it: `hyperion resume` writes it again");
  }
  return text;
}

}  // namespace hyperion::train
