// Amounts of memory as people write them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace hyperion::base {

// "16GiB", "800 MB", "1.5g", "8b"; none where the text is no such amount above 0.
std::optional<int64_t> byte_count(const std::string& text);

}  // namespace hyperion::base
