// The files that a user names for data: plain names and patterns.
#pragma once
#include <string>
#include <vector>

#include "hyperion/base/files.h"

namespace hyperion::data {

// The files of each pattern in turn, those of one pattern sorted by the bytes of their paths, each file once. In a
// pattern `*`, `?` and `[..]` stand for parts of a name, not for a slash nor for a dot at its beginning, and `**` alone
// between slashes for any number of folders, none too (links to folders are not followed there). A file whose very name
// is the pattern is meant by it. Throws ConfigError that names the pattern where it matches no file, or is a folder.
std::vector<base::Path> input_files(const std::vector<std::string>& patterns);

}  // namespace hyperion::data
