// Text from standard input. No more of it is taken into memory than a prompt may have: a device or a pipe may have no
// end.
#pragma once
#include <cstddef>
#include <istream>
#include <optional>
#include <string>

namespace hyperion::serve {

constexpr size_t kLongestPrompt = size_t{16} << 20;  // bytes

// All that there is. Throws ConfigError where that is longer than kLongestPrompt, Interrupted on a request to stop.
std::string read_prompt(std::istream& in);
// The next line, without its end; nothing once there is no more. Throws likewise.
std::optional<std::string> read_plain_line(std::istream& in);

}  // namespace hyperion::serve
