// Characters in UTF-8: their extent, their kind and their lower case. The kinds are those of Unicode 16.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace hyperion::text {

enum class CharClass : uint8_t {
  kUnassigned,
  kUpper,
  kLower,
  kTitle,
  kModifier,
  kOtherLetter,
  kMark,
  kDecimal,
  kLetterNumber,
  kOtherNumber,
  kConnector,
  kPunctuation,
  kSymbol,
  kSpace,    // \s of regular expressions: tab and line ends too
  kControl,  // and the other invisible ones: formats, surrogates, private use
};

struct ClassPages {
  std::array<uint16_t, 0x1100> page;  // by the upper bits of a code point: where its 256 entries start, in units of 256
  std::array<CharClass, size_t{256} * 256> entries;
};
const ClassPages& class_pages();

inline CharClass class_in(const ClassPages& pages, char32_t point) {
  return pages.entries[size_t{pages.page[point >> 8]} * 256 + (point & 255)];
}
inline CharClass class_of(char32_t point) { return class_in(class_pages(), point); }

inline bool is_letter(CharClass kind) { return kind >= CharClass::kUpper && kind <= CharClass::kOtherLetter; }
inline bool is_number(CharClass kind) { return kind >= CharClass::kDecimal && kind <= CharClass::kOtherNumber; }
inline bool is_space(CharClass kind) { return kind == CharClass::kSpace; }
inline bool is_punctuation(CharClass kind) { return kind == CharClass::kConnector || kind == CharClass::kPunctuation; }
bool is_word_char(char32_t point);  // \w of regular expressions

// Bytes of the character whose first byte this is, in valid UTF-8.
inline size_t char_size(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// The character at `text`, which is valid UTF-8.
inline char32_t char_at(const char* text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text);
  if (bytes[0] < 0x80) return bytes[0];
  if (bytes[0] < 0xE0) return (bytes[0] & 31u) << 6 | (bytes[1] & 63u);
  if (bytes[0] < 0xF0) return (bytes[0] & 15u) << 12 | (bytes[1] & 63u) << 6 | (bytes[2] & 63u);
  return (bytes[0] & 7u) << 18 | (bytes[1] & 63u) << 12 | (bytes[2] & 63u) << 6 | (bytes[3] & 63u);
}

// How many bytes from the start are valid UTF-8: text.size() when all are. Overlong forms and surrogates are not.
size_t valid_prefix(std::string_view text);

void append_utf8(std::string& out, char32_t point);
std::u32string from_utf8(std::string_view text);  // of valid text
std::string to_utf8(std::u32string_view text);

// Character by character, as Unicode's default mapping without context; "İ" gives two characters.
std::string lower_case(std::string_view text);

// The numbers of a table made by script/unicode_tables.py, one after the other.
class PackedNumbers {
 public:
  explicit PackedNumbers(const char* text) : at_(text) {}
  uint32_t next();
  int32_t next_signed();
  bool more() const { return *at_ != 0; }

 private:
  const char* at_;
};

extern const char* const kClassTable;
extern const char* const kLowerTable;

}  // namespace hyperion::text
