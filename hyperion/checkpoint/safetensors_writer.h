// Writes safetensors files (safetensors.h), also larger than memory: each tensor is brought when its turn comes, and
// let go after it.
#pragma once
#include <functional>

#include "hyperion/checkpoint/safetensors.h"

namespace hyperion::checkpoint {

struct TensorToWrite {
  std::string name;
  at::ScalarType type;
  std::vector<int64_t> shape;
  std::function<at::Tensor()> bring;
};

// As write_safetensors.
FileHashes write_in_turn(base::FileSystem& files, const base::Path& path, const std::vector<TensorToWrite>& tensors,
                         const Metadata& metadata = {});
// Whole or not at all: written beside its name, and renamed. Returns the file's bytes.
uint64_t replace_in_turn(base::FileSystem& files, const base::Path& path, const std::vector<TensorToWrite>& tensors,
                         const Metadata& metadata);

}  // namespace hyperion::checkpoint
