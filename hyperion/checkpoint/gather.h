// A checkpoint as one file, for tools elsewhere.
#pragma once
#include "hyperion/checkpoint/tensor_set.h"

namespace hyperion::checkpoint {

struct Gathered {
  base::Path path;
  size_t tensors = 0;
  uint64_t bytes = 0;  // of the file
};

// Writes all weights, by the names other tools know them by, and with `optimizer` the rest of the state by its names in
// the checkpoint. Whole or not at all, an older file of that name is replaced; holds one tensor at a time. Throws
// FileError before anything is written where the disk has no room.
Gathered gather_into_file(base::FileSystem& files, const OpenedCheckpoint& from, const base::Path& named,
                          bool optimizer);

}  // namespace hyperion::checkpoint
