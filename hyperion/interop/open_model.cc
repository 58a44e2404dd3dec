#include "hyperion/interop/open_model.h"

#include <ATen/core/grad_mode.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/checkpoint/load.h"
#include "hyperion/interop/hugging_face.h"
#include "hyperion/models/registry.h"

namespace hyperion::interop {
namespace {

using base::format;
using base::Path;

// The configuration is the first file of a run, written before anything else can happen to it.
bool is_run(base::FileSystem& files, const Path& path) { return files.exists(path / "config.resolved.toml"); }
bool is_checkpoint(base::FileSystem& files, const Path& path) { return files.exists(path / "manifest.json"); }

void copy_weights(models::LanguageModel& model, const checkpoint::LoadedCheckpoint& loaded, at::Device device,
                  std::optional<at::ScalarType> type) {
  at::NoGradGuard no_grad;
  auto parameters = model.parameters();
  model.to(device, type.value_or(loaded.tensor("model." + parameters.front().name).scalar_type()));
  for (auto& parameter : model.parameters()) {
    const at::Tensor& saved = loaded.tensor("model." + parameter.name);
    if (saved.sizes() != parameter.tensor.sizes())
      throw base::CorruptError(format("{}: {} has another shape than the model", loaded.path.string(), parameter.name));
    parameter.tensor.copy_(saved);
  }
}

// Without a tokenizer, 256 ids can only be bytes.
OpenedModel open_folder(base::FileSystem& files, const Path& folder, at::Device device,
                        std::optional<at::ScalarType> type) {
  OpenedModel opened;
  auto [model, config] = open_hugging_face(files, folder, device, type);
  opened.bytes = model->shape(1).vocabulary == 256 && !files.exists(folder / "tokenizer.json");
  opened.model = std::move(model);
  opened.config = std::move(config);
  opened.folder = folder;
  return opened;
}

// A folder that is there but is no model would else be looked for among the runs.
void refuse_other_folder(const Path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw base::ConfigError(format("{} is neither a run, nor a checkpoint, nor a Hugging Face folder", path.string()),
                            "a Hugging Face folder holds config.json and model.safetensors");
}

}  // namespace

Path runs_folder_as_set() {
  const char* folder = std::getenv("HYPERION_RUNS");
  return folder != nullptr && *folder != '\0' ? Path(folder) : Path("runs");
}

Path runs_folder() {
  const Path folder = runs_folder_as_set();
  std::error_code ignored;
  if (std::filesystem::exists(folder, ignored) && !std::filesystem::is_directory(folder, ignored))
    throw base::ConfigError(format("the runs cannot lie in {}: it is not a folder", folder.string()),
                            "set HYPERION_RUNS to a folder");
  return folder;
}

Path find_run(base::FileSystem& files, const std::string& name_or_path) {
  if (name_or_path.empty()) throw base::ConfigError("no run was named", "`hyperion runs ls` lists them");
  const Path named = runs_folder() / name_or_path;
  if (is_run(files, named)) return named;
  if (is_run(files, name_or_path)) return Path(name_or_path).lexically_normal();
  std::vector<std::string> names;
  for (const auto& path : files.list(runs_folder()))
    if (is_run(files, path)) names.push_back(path.filename().string());
  const std::string near = base::nearest(name_or_path, names.data(), names.data() + names.size());
  throw base::ConfigError(
      format("no run called \"{}\" in {}, and no run folder of that path", name_or_path, runs_folder().string()),
      near.empty() ? "`hyperion runs ls` lists the runs; HYPERION_RUNS names another folder"
                   : format("did you mean {}?", near));
}

OpenedModel open_model(base::FileSystem& files, const std::string& argument, at::Device device,
                       std::optional<at::ScalarType> type) {
  refuse_pickle(argument);
  if (!is_checkpoint(files, argument) && !is_run(files, argument) && !is_run(files, runs_folder() / argument)) {
    if (is_hugging_face_folder(files, argument)) return open_folder(files, argument, device, type);
    refuse_other_folder(argument);
  }
  OpenedModel opened;
  checkpoint::LoadedCheckpoint loaded;
  if (is_checkpoint(files, argument)) {
    loaded = checkpoint::load_checkpoint(files, argument);
    const Path above = std::filesystem::absolute(argument).lexically_normal().parent_path().parent_path();
    if (is_run(files, above)) opened.run = above;
  } else {
    opened.run = find_run(files, argument);
    loaded = checkpoint::load_newest(files, opened.run / "checkpoints");
  }
  const auto state = base::parse_json(loaded.state, loaded.path.string());
  if (!state.contains("model")) throw base::CorruptError(format("{} says nothing of its model", loaded.path.string()));
  opened.model = models::make_model(state["model"].dump(), loaded.path.string());
  opened.config = opened.model->config_json();
  copy_weights(*opened.model, loaded, device, type);
  opened.step = loaded.step;
  opened.checkpoint = loaded.path;
  return opened;
}

}  // namespace hyperion::interop
