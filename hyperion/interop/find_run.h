// Where runs lie, and which folder is one.
#pragma once
#include <optional>
#include <string>

#include "hyperion/base/files.h"

namespace hyperion::interop {

// $HYPERION_RUNS, else ./runs. It may not exist yet; a ConfigError where it is something else than a folder.
base::Path runs_folder();
base::Path runs_folder_as_set();  // unchecked

// Whether a run was begun in this folder. Its configuration is the first file written; should that be gone, the record
// stays.
bool is_run(base::FileSystem& files, const base::Path& folder);

// Whether a word is a path from here, never a run's name: it begins with '.' or '~', or has a slash in it.
bool names_path(const std::string& word);

// The run of that name, or of that path; nothing where there is none. A name that only ends in a slash is a path where
// something lies there.
std::optional<base::Path> named_run(base::FileSystem& files, const std::string& word);

// The folder of a run given its name or path. Throws ConfigError with a did-you-mean.
base::Path find_run(base::FileSystem& files, const std::string& name_or_path);

}  // namespace hyperion::interop
