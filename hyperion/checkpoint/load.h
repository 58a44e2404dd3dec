// Reads checkpoints back. Sizes and hashes of all files are verified before anything is handed out.
#pragma once
#include "hyperion/checkpoint/safetensors.h"

namespace hyperion::checkpoint {

struct LoadedCheckpoint {
  int64_t step = 0;
  base::Path path;
  std::string created, version;
  std::string state;                          // the JSON object of the Snapshot
  std::map<std::string, at::Tensor> tensors;  // CPU views of the mapped file: copy from them, never write to them

  // Throws CorruptError that names the checkpoint where there is no such tensor.
  const at::Tensor& tensor(const std::string& name) const;
};

// One step-N folder. Throws CorruptError, or FileError where a file is missing or cannot be read.
LoadedCheckpoint load_checkpoint(base::FileSystem& files, const base::Path& step_folder);

// The newest good checkpoint of a run's checkpoints folder. Each bad one passed over gives a warning: which file, why,
// and the step it falls back to. None good: CorruptError that tells what is wrong with each. None at all: ConfigError.
LoadedCheckpoint load_newest(base::FileSystem& files, const base::Path& folder);

}  // namespace hyperion::checkpoint
