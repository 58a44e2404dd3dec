// Where a bench's files go.
#pragma once
#include <string>

#include "hyperion/base/files.h"

namespace hyperion::cli {

// The folder given or, where that is empty, one of its own among the runs: the kind and the time. Made now, so that a
// place that cannot be written fails before minutes of work.
base::Path result_folder(const std::string& given, const std::string& kind);

}  // namespace hyperion::cli
