#include "hyperion/tokenizers/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "hyperion/text/unicode.h"

namespace hyperion::tokenizers {
namespace {

struct Alphabet {
  std::array<char32_t, 256> spelled;
  std::array<int16_t, 0x144> byte;  // -1: none

  Alphabet() {
    byte.fill(-1);
    char32_t next = 256;  // bytes that are no visible Latin-1 character take these in turn
    for (int value = 0; value < 256; ++value) {
      const bool visible = (value >= '!' && value <= '~') || (value >= 0xA1 && value <= 0xAC) || value >= 0xAE;
      spelled[value] = visible ? value : next++;
      byte[spelled[value]] = static_cast<int16_t>(value);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet made;
  return made;
}

}  // namespace

std::string spell_bytes(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) text::append_utf8(out, alphabet().spelled[static_cast<unsigned char>(byte)]);
  return out;
}

std::optional<std::string> unspell_bytes(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); at += text::char_size(text[at])) {
    const char32_t point = text::char_at(text.data() + at);
    if (point >= alphabet().byte.size() || alphabet().byte[point] < 0) return std::nullopt;
    out += static_cast<char>(alphabet().byte[point]);
  }
  return out;
}

}  // namespace hyperion::tokenizers
