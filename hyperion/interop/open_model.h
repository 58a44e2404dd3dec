// The MODEL argument of every command: a run's name, a run's folder or a checkpoint's folder, opened for use.
#pragma once
#include <memory>
#include <string>

#include "hyperion/base/files.h"
#include "hyperion/models/gpt2.h"

namespace hyperion::interop {

// $HYPERION_RUNS, else ./runs. It may not exist yet; a ConfigError where it is something else than a folder.
base::Path runs_folder();
base::Path runs_folder_as_set();  // unchecked

// The folder of a run given its name or path. Throws ConfigError with a did-you-mean.
base::Path find_run(base::FileSystem& files, const std::string& name_or_path);

struct OpenedModel {
  std::unique_ptr<models::LanguageModel> model;
  models::Gpt2Config config;
  int64_t step = 0;
  base::Path checkpoint, run;  // run: the folder that holds checkpoints/, empty for a checkpoint lying alone
};

// The newest good checkpoint of a run, or the one named, with its weights on `device` in the type they were trained in.
OpenedModel open_model(base::FileSystem& files, const std::string& argument, at::Device device);

}  // namespace hyperion::interop
