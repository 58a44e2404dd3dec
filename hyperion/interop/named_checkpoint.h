// RUN@best, RUN@last and RUN@STEP: one checkpoint of it, by what it is.
#pragma once
#include <optional>
#include <string>

#include "hyperion/base/files.h"
#include "hyperion/interop/find_run.h"

namespace hyperion::interop {

// The folder of the checkpoint; nothing where the word has no @, or what stands before it is no run. Throws ConfigError
// where the run has no such checkpoint.
std::optional<base::Path> named_checkpoint(base::FileSystem& files, const std::string& word);

}  // namespace hyperion::interop
