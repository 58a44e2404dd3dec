#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace hyperion::text {

// The bytes that base64 spells, its padding there or not; nothing for what is not base64.
std::optional<std::string> from_base64(std::string_view text);

std::string to_base64(std::string_view bytes);  // padded

}  // namespace hyperion::text
