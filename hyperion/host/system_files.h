// Reads what Linux tells in /proc and /sys. `root` is "/" but in tests, which lay out a tree of their own.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/base/files.h"

namespace hyperion::host {

// The content without blanks at its end; nothing where the file is missing or unreadable. `path` is absolute:
// "/proc/cpuinfo".
std::optional<std::string> system_text(const base::Path& root, std::string_view path);
std::optional<int64_t> system_number(const base::Path& root, std::string_view path);

// The whole of `text` as a decimal number, or nothing.
std::optional<int64_t> whole_number(std::string_view text);

// How many numbers a list such as "0-3,8" names.
int list_count(std::string_view list);

std::string_view trimmed(std::string_view text);
std::vector<std::string> split(std::string_view text, char separator);  // empty parts left out

}  // namespace hyperion::host
