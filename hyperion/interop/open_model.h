// The MODEL argument of every command: a run's name, a run's folder, a checkpoint's folder or a Hugging Face folder,
// opened for use.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "hyperion/base/files.h"
#include "hyperion/models/language_model.h"

namespace hyperion::interop {

// $HYPERION_RUNS, else ./runs. It may not exist yet; a ConfigError where it is something else than a folder.
base::Path runs_folder();
base::Path runs_folder_as_set();  // unchecked

// The folder of a run given its name or path. Throws ConfigError with a did-you-mean.
base::Path find_run(base::FileSystem& files, const std::string& name_or_path);

struct OpenedModel {
  std::unique_ptr<models::LanguageModel> model;
  std::string config;          // as Hugging Face's config.json
  bool bytes = true;           // the tokens are bytes
  int64_t step = 0;            // 0 for a Hugging Face folder
  base::Path checkpoint, run;  // run: the folder that holds checkpoints/, empty for a checkpoint lying alone
  base::Path folder;           // Hugging Face's, else empty
};

// The newest good checkpoint of a run, the one named, or a Hugging Face folder, with its weights on `device` in `type`,
// or else in the type they are kept in.
OpenedModel open_model(base::FileSystem& files, const std::string& argument, at::Device device,
                       std::optional<at::ScalarType> type = {});

}  // namespace hyperion::interop
