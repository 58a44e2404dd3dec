// Which folder is a run's, and RUN@best, RUN@last and RUN@STEP: one checkpoint of it, by what it is.
#pragma once
#include <optional>
#include <string>

#include "hyperion/base/files.h"

namespace hyperion::interop {

// Whether a run was begun in this folder. Its configuration is the first file written; should that be gone, the record
// stays.
bool is_run(base::FileSystem& files, const base::Path& folder);

// The folder of the checkpoint; nothing where the word has no @, or what stands before it is no run. Throws ConfigError
// where the run has no such checkpoint.
std::optional<base::Path> named_checkpoint(base::FileSystem& files, const std::string& word);

}  // namespace hyperion::interop
