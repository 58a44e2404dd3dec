#include "hyperion/text/unicode.h"

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "hyperion/base/error.h"

namespace hyperion::text {
namespace {

std::unique_ptr<ClassPages> unpack_classes() {
  std::vector<CharClass> kinds;
  kinds.reserve(0x110000);
  PackedNumbers numbers(kClassTable);
  while (numbers.more()) {
    const uint32_t count = numbers.next();
    kinds.insert(kinds.end(), count, static_cast<CharClass>(numbers.next()));
  }
  HYPERION_CHECK(kinds.size() == 0x110000, "the table covers Unicode");
  auto pages = std::make_unique<ClassPages>();
  std::map<std::vector<CharClass>, uint16_t> seen;
  for (size_t page = 0; page < pages->page.size(); ++page) {
    const auto first = kinds.begin() + static_cast<std::ptrdiff_t>(page * 256);
    const auto [found, fresh] = seen.try_emplace({first, first + 256}, static_cast<uint16_t>(seen.size()));
    HYPERION_CHECK(found->second < 256, "room for every page");
    if (fresh) std::copy(first, first + 256, pages->entries.begin() + std::ptrdiff_t{found->second} * 256);
    pages->page[page] = found->second;
  }
  return pages;
}

const std::unordered_map<char32_t, char32_t>& lower_map() {
  static const auto map = [] {
    std::unordered_map<char32_t, char32_t> lower;
    PackedNumbers numbers(kLowerTable);
    for (uint32_t first = 0; numbers.more();) {
      first += numbers.next();
      const uint32_t stride = numbers.next(), count = numbers.next();
      const int32_t difference = numbers.next_signed();
      for (uint32_t i = 0; i < count; ++i) lower[first + i * stride] = first + i * stride + difference;
    }
    return lower;
  }();
  return map;
}

// Bytes that the character at `at` needs after its first, when they are what UTF-8 allows there; else 0.
size_t valid_tail(const unsigned char* at, size_t left) {
  const unsigned first = at[0];
  const size_t tail = first >= 0xC2 && first < 0xE0   ? 1
                      : first >= 0xE0 && first < 0xF0 ? 2
                      : first >= 0xF0 && first < 0xF5 ? 3
                                                      : 0;
  if (tail == 0 || tail >= left) return 0;
  for (size_t i = 1; i <= tail; ++i)
    if ((at[i] & 0xC0) != 0x80) return 0;
  if ((first == 0xE0 && at[1] < 0xA0) || (first == 0xED && at[1] >= 0xA0)) return 0;
  if ((first == 0xF0 && at[1] < 0x90) || (first == 0xF4 && at[1] >= 0x90)) return 0;
  return tail;
}

}  // namespace

uint32_t PackedNumbers::next() {
  uint32_t number = 0;
  for (int shift = 0;; shift += 5) {
    const auto digit = static_cast<uint32_t>(*at_++ - '#');
    number |= (digit & 31) << shift;
    if (digit < 32) return number;
  }
}

int32_t PackedNumbers::next_signed() {
  const uint32_t number = next();
  return static_cast<int32_t>(number >> 1) ^ -static_cast<int32_t>(number & 1);
}

const ClassPages& class_pages() {
  static const std::unique_ptr<ClassPages> pages = unpack_classes();
  return *pages;
}

bool is_word_char(char32_t point) {
  const CharClass kind = class_of(point);
  if (is_letter(kind) || kind == CharClass::kMark || kind == CharClass::kDecimal || kind == CharClass::kLetterNumber ||
      kind == CharClass::kConnector)
    return true;
  // Joiners, and symbols that are letters in a circle or square.
  return point == 0x200C || point == 0x200D || (point >= 0x24B6 && point <= 0x24E9) ||
         (point >= 0x1F130 && point <= 0x1F149) || (point >= 0x1F150 && point <= 0x1F169) ||
         (point >= 0x1F170 && point <= 0x1F189);
}

size_t valid_prefix(std::string_view text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  size_t at = 0;
  while (at < text.size()) {
    while (at + 8 <= text.size()) {  // ASCII, eight bytes at a time
      uint64_t word;
      std::copy_n(bytes + at, 8, reinterpret_cast<unsigned char*>(&word));
      if ((word & 0x8080808080808080u) != 0) break;
      at += 8;
    }
    while (at < text.size() && bytes[at] < 0x80) ++at;
    if (at == text.size()) break;
    const size_t tail = valid_tail(bytes + at, text.size() - at);
    if (tail == 0) return at;
    at += tail + 1;
  }
  return at;
}

void append_utf8(std::string& out, char32_t point) {
  const auto byte = [&](char32_t bits) { out += static_cast<char>(bits); };
  if (point < 0x80) return byte(point);
  if (point < 0x800) {
    byte(0xC0 | point >> 6);
  } else {
    if (point < 0x10000) {
      byte(0xE0 | point >> 12);
    } else {
      byte(0xF0 | point >> 18);
      byte(0x80 | (point >> 12 & 63));
    }
    byte(0x80 | (point >> 6 & 63));
  }
  byte(0x80 | (point & 63));
}

std::u32string from_utf8(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size(); at += char_size(text[at])) out += char_at(text.data() + at);
  return out;
}

std::string to_utf8(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t point : text) append_utf8(out, point);
  return out;
}

std::string lower_case(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size(); at += char_size(text[at])) {
    const char32_t point = char_at(text.data() + at);
    if (point < 0x80) {
      out += static_cast<char>(point >= 'A' && point <= 'Z' ? point + 32 : point);
    } else if (point == 0x130) {
      out += "i\xCC\x87";
    } else {
      const auto found = lower_map().find(point);
      append_utf8(out, found == lower_map().end() ? point : found->second);
    }
  }
  return out;
}

}  // namespace hyperion::text
