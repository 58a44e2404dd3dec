#include "hyperion/interop/find_model.h"

#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/read_file.h"
#include "hyperion/checkpoint/load.h"
#include "hyperion/hub/cache.h"
#include "hyperion/images/image_processing.h"
#include "hyperion/interop/find_run.h"
#include "hyperion/interop/hugging_face.h"
#include "hyperion/interop/named_checkpoint.h"
#include "hyperion/interop/weight_files.h"

namespace hyperion::interop {

using base::format;
using base::Path;

namespace {

bool is_checkpoint(base::FileSystem& files, const Path& path) { return files.exists(path / "manifest.json"); }

// What is there but is no model would else be looked for among the runs.
void refuse_other_folder(const Path& path) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored))
    throw base::ConfigError(format("{} is a file, and a model is a folder", path.string()),
                            "name the folder that holds config.json and model.safetensors, or a run");
  if (std::filesystem::is_directory(path, ignored))
    throw base::ConfigError(format("{} is neither a run, nor a checkpoint, nor a Hugging Face folder", path.string()),
                            "a Hugging Face folder holds config.json and model.safetensors");
}

}  // namespace

bool names_folder(base::FileSystem& files, const std::string& argument) {
  if (is_checkpoint(files, argument) || named_run(files, argument)) return false;
  if (is_hugging_face_folder(files, argument)) return true;
  refuse_other_folder(argument);
  return false;
}

checkpoint::OpenedCheckpoint find_checkpoint(base::FileSystem& files, const std::string& argument, Path& run) {
  if (is_checkpoint(files, argument)) {
    const Path above = std::filesystem::absolute(argument).lexically_normal().parent_path().parent_path();
    if (is_run(files, above)) run = above;
    return checkpoint::open_checkpoint(files, argument);
  }
  run = find_run(files, argument);
  return checkpoint::open_newest(files, run / "checkpoints",
                                 [](const checkpoint::OpenedCheckpoint& one) { one.verify("model."); });
}

std::string config_of(const checkpoint::OpenedCheckpoint& loaded) {
  const auto state = base::parse_json(loaded.state, loaded.path.string());
  if (!state.contains("model")) throw base::CorruptError(format("{} says nothing of its model", loaded.path.string()));
  return state["model"].dump();
}

std::string find_model(base::FileSystem& files, const std::string& argument) {
  refuse_pickle(argument);
  if (const auto named = named_checkpoint(files, argument)) return named->string();
  if (is_checkpoint(files, argument) || named_run(files, argument)) return argument;
  const std::string place = hub::locate(files, argument);
  if (place == argument) return argument;
  const std::string missing =
      is_hugging_face_folder(files, place) ? missing_weight_file(files, place) : std::string("config.json");
  if (!missing.empty())
    throw base::ConfigError(format("Hugging Face's cache has {} in part: {} is not in {}", argument, missing, place),
                            format("`hyperion fetch {}` completes it", argument));
  return place;
}

Path checkpoint_folder(base::FileSystem& files, const std::string& named) {
  const std::string argument = find_model(files, named);
  if (names_folder(files, argument)) return {};
  Path run;
  return find_checkpoint(files, argument, run).path;
}

namespace {

// Of a run that part of its folder; a Hugging Face folder has all in one.
Path part_of_model(base::FileSystem& files, const std::string& named, const char* part) {
  const std::string argument = find_model(files, named);
  if (names_folder(files, argument)) return argument;
  const Path run = is_checkpoint(files, argument) ? std::filesystem::absolute(argument).parent_path().parent_path()
                                                  : find_run(files, argument);
  return run / part;
}

}  // namespace

Path image_processor(base::FileSystem& files, const std::string& named) {
  const Path path = part_of_model(files, named, kRunProcessor) / images::kProcessorFile;
  return files.exists(path) ? path : Path();
}

Path tokenizer_folder(base::FileSystem& files, const std::string& named) {
  return part_of_model(files, named, kRunTokenizer);
}

std::string read_model_config(base::FileSystem& files, const std::string& named) {
  const std::string argument = find_model(files, named);
  if (names_folder(files, argument)) {
    const Path path = Path(argument) / "config.json";
    auto text = base::read_description(files, path);
    base::parse_json(text, path.string());  // named here, by its file
    return text;
  }
  Path run;
  return config_of(find_checkpoint(files, argument, run));
}

}  // namespace hyperion::interop
