#include "hyperion/data/base64.h"

#include <cstdint>

namespace hyperion::data {

std::optional<std::string> from_base64(std::string_view text) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  uint32_t bits = 0;
  int held = 0;
  for (const char letter : text) {
    const size_t digit = digits.find(letter);
    if (digit == digits.npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out += static_cast<char>(bits >> held);
  }
  return out;
}

}  // namespace hyperion::data
