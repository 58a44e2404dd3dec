// The files that a user names for data: plain names and patterns.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/base/files.h"

namespace hyperion::records {

// The files of each pattern in turn, those of one pattern sorted by the bytes of their paths, each file once. In a
// pattern `*`, `?` and `[..]` stand for parts of a name, not for a slash nor for a dot at its beginning, and `**` alone
// between slashes for any number of folders, none too (links to folders are not followed there). A file whose very name
// is the pattern is meant by it. Throws ConfigError that names the pattern where it matches no file, or is a folder.
std::vector<base::Path> input_files(const std::vector<std::string>& patterns);

// Throws ConfigError that names the path where it is not UTF-8: records of sets are JSON, which holds nothing else.
void check_utf8_path(const base::Path& path);
// A name out of a file or folder for messages and records: what is no UTF-8, and control characters, as "\xe9".
std::string shown_in_utf8(std::string_view name);

}  // namespace hyperion::records
