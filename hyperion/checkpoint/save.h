// Writes a checkpoint so that a crash at any point leaves the earlier ones whole: beside its name, synced, then
// renamed.
#pragma once
#include <optional>

#include "hyperion/base/files.h"
#include "hyperion/nn/parameter.h"

namespace hyperion::comm {
class Group;
}

namespace hyperion::checkpoint {

struct Snapshot {
  int64_t step = 0;
  std::vector<nn::Parameter> tensors;  // whole, or of one cut among ranks this one's part
  std::string state = "{}";            // a JSON object: schedule, cursor, seed
  std::string version;                 // of the program, for the manifest
  std::optional<int64_t> best = {};    // the step whose checkpoint stays, however old it is
};

// What stays of older checkpoints, beside the best.
struct Retention {
  int64_t keep = 2;   // the newest, at least 1
  int64_t every = 0;  // and of each so many steps the first, for ever; 0: none
  Retention(int64_t newest, int64_t for_ever = 0) : keep(newest), every(for_ever) {}
};

// Writes `folder`/step-N and returns its path; a step-N already there is replaced. It is opened as a reader would
// before it takes its name; only then all but what `retention` keeps and the best are removed, never the one just
// written, and what earlier crashes left behind; a removal that fails is only a warning. When the write fails
// (FileError with a hint), what was begun is removed and every earlier checkpoint is as it was. One saver at a time for
// a folder. Fault points: checkpoint.before_shard, .before_manifest, .before_rename, .after_rename.
//
// With `ranks` every rank of the group calls this: each writes its tensors as shard-<rank>, rank 0 the
// manifest, last, with its own state. Where one fails all throw, and the folder is as it was: FileError on all where
// nothing but storage failed.
base::Path save_checkpoint(base::FileSystem& files, const base::Path& folder, const Snapshot& snapshot,
                           const Retention& retention, comm::Group* ranks = nullptr);

// Gives the checkpoint in `step_folder` another state; its tensors stay.
void replace_state(base::FileSystem& files, const base::Path& step_folder, const std::string& state);

}  // namespace hyperion::checkpoint
