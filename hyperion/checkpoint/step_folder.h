// How checkpoints lie in a run's checkpoints folder: `step-N` is complete, `.step-N.partial-PID` is being written or
// removed,
// `.step-N.replaced-PID` is the old step-N while a new one takes its place. Readers and the saver share these names.
#pragma once
#include <optional>

#include "hyperion/base/files.h"

namespace hyperion::checkpoint {

inline constexpr const char* kManifestName = "manifest.json";

struct CheckpointEntry {
  int64_t step = 0;
  base::Path path;
  uint64_t bytes = 0;   // of all its files; 0 where the manifest cannot be read
  std::string created;  // UTC; empty where the manifest cannot be read
};

// The complete checkpoints (those with a manifest), newest step first; their content is not verified here. Of a
// replacement that was cut short the old checkpoint is listed.
std::vector<CheckpointEntry> list_checkpoints(base::FileSystem& files, const base::Path& folder);

enum class StepFolderKind { complete, partial, replaced };
struct StepFolderName {
  int64_t step = 0;
  StepFolderKind kind = StepFolderKind::complete;
};
std::string step_folder_name(int64_t step, StepFolderKind kind = StepFolderKind::complete);
std::optional<StepFolderName> parse_step_folder(const std::string& name);  // nothing: not one of ours

}  // namespace hyperion::checkpoint
