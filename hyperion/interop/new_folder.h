// A folder that appears whole or not at all.
#pragma once
#include <functional>

#include "hyperion/base/files.h"

namespace hyperion::interop {

// Lets `fill` write into a folder beside `to`, then renames it. `to` must not exist (ConfigError); where `fill` throws,
// what was begun is removed, and where the process is killed, by the next that writes to the same place.
void write_new_folder(base::FileSystem& files, const base::Path& to,
                      const std::function<void(const base::Path& partial)>& fill);

}  // namespace hyperion::interop
