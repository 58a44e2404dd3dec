// Where runs lie, and which folder is one.
#pragma once
#include <string>

#include "hyperion/base/files.h"

namespace hyperion::interop {

// $HYPERION_RUNS, else ./runs. It may not exist yet; a ConfigError where it is something else than a folder.
base::Path runs_folder();
base::Path runs_folder_as_set();  // unchecked

// Whether a run was begun in this folder. Its configuration is the first file written; should that be gone, the record
// stays.
bool is_run(base::FileSystem& files, const base::Path& folder);

// The folder of a run given its name or path. Throws ConfigError with a did-you-mean.
base::Path find_run(base::FileSystem& files, const std::string& name_or_path);

}  // namespace hyperion::interop
