#include "hyperion/tokenizers/charsmap.h"

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/text/unicode.h"

namespace hyperion::tokenizers {
namespace {

constexpr size_t kLongestCluster = 5;  // in bytes; longer ones are looked up by character

uint32_t charsmap_number(std::string_view bytes, size_t at) {
  uint32_t out = 0;
  for (size_t i = 4; i-- > 0;) out = out << 8 | static_cast<unsigned char>(bytes[at + i]);
  return out;
}

// A unit of the trie: whether a key ends there, what leads to it, and where its children are.
bool ends_key(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t label(uint32_t unit) { return unit & (uint32_t{1} << 31 | 0xFF); }
size_t children(uint32_t unit) { return size_t{unit >> 10} << ((unit & 1 << 9) >> 6); }
uint32_t value(uint32_t unit) { return unit & 0x7FFFFFFF; }

bool in(char32_t point, char32_t low, char32_t high) { return point >= low && point <= high; }

// The character stays with the one before it (Unicode's Extend, ZWJ and SpacingMark): marks but for vowels that stand
// by themselves, and a few that are no marks.
bool joins_previous(char32_t point) {
  if (point < 0x300) return false;
  if (text::class_of(point) == text::CharClass::kMark) {
    constexpr char32_t apart[][2] = {{0x102B, 0x102C},  {0x1038, 0x1038}, {0x1062, 0x1064}, {0x1067, 0x106D},
                                     {0x1083, 0x1083},  {0x1087, 0x108C}, {0x108F, 0x108F}, {0x109A, 0x109C},
                                     {0x1A61, 0x1A61},  {0x1A63, 0x1A64}, {0xAA7B, 0xAA7B}, {0xAA7D, 0xAA7D},
                                     {0x11720, 0x11721}};
    for (const auto& [low, high] : apart)
      if (in(point, low, high)) return false;
    return true;
  }
  return in(point, 0x200C, 0x200D) || in(point, 0xFF9E, 0xFF9F) || in(point, 0x1F3FB, 0x1F3FF) || point == 0xE33 ||
         point == 0xEB3 || in(point, 0xE0020, 0xE007F);
}
bool joins_next(char32_t point) {  // Prepend, of those short enough to matter
  return in(point, 0x600, 0x605) || point == 0x6DD || point == 0x70F || in(point, 0x890, 0x891) || point == 0x8E2;
}
bool stands_alone(char32_t point) {  // Control: nothing joins it
  const text::CharClass kind = text::class_of(point);
  return (kind == text::CharClass::kControl && !joins_previous(point) && !joins_next(point)) || in(point, 9, 13) ||
         point == 0x85 || in(point, 0x2028, 0x2029);
}

size_t cluster_end(std::string_view text, size_t at) {
  if (text.substr(at).starts_with("\r\n")) return at + 2;
  char32_t point = text::char_at(text.data() + at);
  at += text::char_size(text[at]);
  while (joins_next(point) && at < text.size() && !stands_alone(text::char_at(text.data() + at))) {
    point = text::char_at(text.data() + at);
    at += text::char_size(text[at]);
  }
  if (stands_alone(point)) return at;
  while (at < text.size() && joins_previous(text::char_at(text.data() + at))) at += text::char_size(text[at]);
  return at;
}

}  // namespace

Charsmap::Charsmap(std::string_view bytes, std::string place) : place_(std::move(place)) {
  if (bytes.size() < 4) damaged("is too short");
  const size_t size = charsmap_number(bytes, 0);
  if (size % 4 != 0 || size == 0 || size > bytes.size() - 4) damaged("does not say how long it is");
  units_.reserve(size / 4);
  for (size_t at = 4; at < 4 + size; at += 4) units_.push_back(charsmap_number(bytes, at));
  texts_ = bytes.substr(4 + size);
  if (text::valid_prefix(texts_) != texts_.size()) damaged("has texts that are not UTF-8");
}

void Charsmap::damaged(const char* what) const {
  throw base::CorruptError(base::format("{}: the precompiled_charsmap {}", place_, what), "the file is damaged");
}

uint32_t Charsmap::unit(size_t at) const {
  if (at >= units_.size()) damaged("leads out of itself");
  return units_[at];
}

std::optional<std::string_view> Charsmap::replacement(std::string_view text) const {
  size_t node = children(unit(0));
  for (const char byte : text) {
    const auto wanted = static_cast<unsigned char>(byte);
    if (wanted == 0) break;
    node ^= wanted;
    const uint32_t found = unit(node);
    if (label(found) != wanted) break;
    node ^= children(found);
    if (!ends_key(found)) continue;
    const size_t start = value(unit(node));
    if (start > texts_.size() || (start < texts_.size() && (texts_[start] & 0xC0) == 0x80))
      damaged("leads out of its texts");
    return std::string_view(texts_).substr(start, std::min(texts_.find('\0', start), texts_.size()) - start);
  }
  return std::nullopt;
}

TracedText Charsmap::apply(const TracedText& traced) const {
  const std::string& text = traced.text();
  Rewrite out(traced);
  for (size_t at = 0; at < text.size();) {
    const size_t end = cluster_end(text, at);
    const auto part = [&](size_t from, size_t to) { return std::string_view(text).substr(from, to - from); };
    const auto whole = end - at <= kLongestCluster ? replacement(part(at, end)) : std::nullopt;
    if (whole) {
      out.put(*whole, at, end);
      at = end;
    }
    while (at < end) {
      const size_t next = at + text::char_size(text[at]);
      if (const auto by = replacement(part(at, next)))
        out.put(*by, at, next);
      else
        out.keep(at, next);
      at = next;
    }
  }
  return out.finish();
}

}  // namespace hyperion::tokenizers
