// Reads checkpoints back. Sizes and hashes of all files are verified before anything is handed out.
#pragma once
#include <functional>

#include "hyperion/checkpoint/safetensors.h"

namespace hyperion::checkpoint {

struct LoadedCheckpoint {
  int64_t step = 0;
  base::Path path;
  std::string created, version;
  std::string state;                          // the JSON object of the Snapshot
  std::map<std::string, at::Tensor> tensors;  // CPU views of the mapped file: copy from them, never write to them

  // A tensor that several processes wrote, each its slices: views of the mapped files by where they begin.
  struct Sliced {
    std::vector<int64_t> shape;
    at::ScalarType type = at::kFloat;
    std::map<int64_t, at::Tensor> parts;
  };
  std::map<std::string, Sliced> sliced;

  // Each throws CorruptError that names the checkpoint where there is no such tensor.
  at::Tensor tensor(const std::string& name) const;  // of slices a copy, put together
  std::vector<int64_t> shape(const std::string& name) const;
  at::ScalarType type(const std::string& name) const;
  // Elements [begin, begin + out.numel()) of the flattened tensor, of whatever type, and nothing else of it.
  void copy_stretch(const std::string& name, int64_t begin, const at::Tensor& out) const;
};

// One step-N folder. Throws CorruptError, or FileError where a file is missing or cannot be read.
LoadedCheckpoint load_checkpoint(base::FileSystem& files, const base::Path& step_folder);

// The newest good checkpoint of a run's checkpoints folder. Each bad one passed over gives a warning: which file, why,
// and the step it falls back to. None good: CorruptError that tells what is wrong with each. None at all: ConfigError.
// `check` throws CorruptError on a state that only the caller can judge.
LoadedCheckpoint load_newest(base::FileSystem& files, const base::Path& folder,
                             const std::function<void(const LoadedCheckpoint&)>& check = {});

}  // namespace hyperion::checkpoint
