// Files that a user names for a result.
#pragma once
#include <string>
#include <string_view>

#include "hyperion/base/files.h"

namespace hyperion::base {

// Where a result goes: at the end of links, and never in the place of a device, a pipe or a folder. `ending`, where
// given, is one that the name must have, so that no file of another kind is written over. Throws ConfigError.
Path output_file(const Path& named, std::string_view ending = {});

}  // namespace hyperion::base
