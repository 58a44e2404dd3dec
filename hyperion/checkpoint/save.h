// Writes a checkpoint so that a crash at any point leaves the earlier ones whole: beside its name, synced, then
// renamed.
#pragma once
#include "hyperion/checkpoint/safetensors.h"

namespace hyperion::checkpoint {

struct Snapshot {
  int64_t step = 0;
  std::vector<NamedTensor> tensors;
  std::string state = "{}";  // a JSON object: schedule, cursor, seed
  std::string version;       // of the program, for the manifest
};

// Writes `folder`/step-N and returns its path; a step-N already there is replaced. Then removes all but the newest
// `keep` (at least 1) complete checkpoints, never the one just written, and what earlier crashes left behind; a removal
// that fails is only a warning. When the write fails (FileError with a hint), what was begun is removed and every
// earlier checkpoint is as it was. One saver at a time for a folder. Fault points: checkpoint.before_shard,
// .before_manifest, .before_rename, .after_rename.
base::Path save_checkpoint(base::FileSystem& files, const base::Path& folder, const Snapshot& snapshot, int64_t keep);

}  // namespace hyperion::checkpoint
