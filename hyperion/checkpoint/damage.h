// All that is wrong with a checkpoint, where a load stops at the first.
#pragma once
#include <string>
#include <vector>

#include "hyperion/base/files.h"

namespace hyperion::checkpoint {

struct Verified {
  std::vector<std::string>
      damage;          // each names its file, and where it can the tensor and the block; empty: it is whole
  uint64_t bytes = 0;  // read and held against their hashes
};

// Every hash of every file, and that the parts make whole tensors. Shows a progress line where it takes long.
Verified verify_checkpoint(base::FileSystem& files, const base::Path& step_folder);

}  // namespace hyperion::checkpoint
