#include "hyperion/tokenizers/normal_forms.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "hyperion/text/unicode.h"

namespace hyperion::tokenizers {
namespace {

// Hangul syllables are composed by arithmetic: syllable = first + ((leading * 21) + vowel) * 28 + trailing.
constexpr char32_t kSyllable = 0xAC00, kLeading = 0x1100, kVowel = 0x1161, kTrailing = 0x11A7;
constexpr char32_t kLeadings = 19, kVowels = 21, kTrailings = 28, kSyllables = kLeadings * kVowels * kTrailings;

struct Tables {
  std::unordered_map<char32_t, uint8_t> combining;
  std::unordered_map<char32_t, std::u32string> canonical, compatible;  // carried on until nothing decomposes
  std::unordered_map<uint64_t, char32_t> composed;                     // by both parts
};

uint64_t pair_of(char32_t first, char32_t second) { return uint64_t{first} << 32 | second; }

void append_parts(const Tables& tables, const std::unordered_map<char32_t, std::pair<bool, std::u32string>>& raw,
                  char32_t point, bool compatible, std::u32string& out) {
  const auto found = raw.find(point);
  if (found == raw.end() || (found->second.first && !compatible)) {
    out += point;
    return;
  }
  for (const char32_t part : found->second.second) append_parts(tables, raw, part, compatible, out);
}

Tables unpack() {
  Tables tables;
  text::PackedNumbers numbers(kNormalFormTable);
  char32_t point = 0;
  for (uint32_t runs = numbers.next(); runs > 0; --runs) {
    point += numbers.next();
    const auto kind = static_cast<uint8_t>(numbers.next());
    for (uint32_t i = 0, count = numbers.next(); i < count; ++i) tables.combining[point + i] = kind;
  }
  std::unordered_map<char32_t, std::pair<bool, std::u32string>> raw;
  point = 0;
  for (uint32_t count = numbers.next(); count > 0; --count) {
    point += numbers.next();
    const uint32_t head = numbers.next();
    std::u32string parts;
    char32_t part = point;
    for (uint32_t i = 0; i < head / 2; ++i) parts += part += numbers.next_signed();
    if (head % 2 == 0 && parts.size() == 2) tables.composed[pair_of(parts[0], parts[1])] = point;
    raw[point] = {head % 2 != 0, parts};
  }
  point = 0;
  for (uint32_t count = numbers.next(); count > 0; --count) {
    point += numbers.next();
    const auto& parts = raw[point].second;
    if (parts.size() == 2) tables.composed.erase(pair_of(parts[0], parts[1]));
  }
  for (const auto& [whole, parts] : raw) {
    append_parts(tables, raw, whole, true, tables.compatible[whole]);
    if (!parts.first) append_parts(tables, raw, whole, false, tables.canonical[whole]);
  }
  return tables;
}

const Tables& tables() {
  static const Tables made = unpack();
  return made;
}

uint8_t combining_class(char32_t point) {
  if (point < 0x300) return 0;
  const auto found = tables().combining.find(point);
  return found == tables().combining.end() ? 0 : found->second;
}

// A character, and where it stands or what it was made of.
struct Placed {
  char32_t point;
  size_t begin, end;
};
using Points = std::vector<Placed>;

Points decomposed(std::string_view text, size_t begin, size_t end, bool compatible) {
  const auto& map = compatible ? tables().compatible : tables().canonical;
  Points out;
  for (size_t at = begin; at < end;) {
    const char32_t point = text::char_at(text.data() + at);
    const size_t next = at + text::char_size(text[at]);
    const auto add = [&](char32_t part) { out.push_back({part, at, next}); };
    if (point >= kSyllable && point < kSyllable + kSyllables) {
      const char32_t index = point - kSyllable;
      add(static_cast<char32_t>(kLeading + index / (kVowels * kTrailings)));
      add(static_cast<char32_t>(kVowel + index / kTrailings % kVowels));
      if (index % kTrailings != 0) add(static_cast<char32_t>(kTrailing + index % kTrailings));
    } else if (const auto found = point < 0xA0 ? map.end() : map.find(point); found != map.end()) {
      for (const char32_t part : found->second) add(part);
    } else {
      add(point);
    }
    at = next;
  }
  return out;
}

// Marks after one base, sorted by their class; those of one class keep their order. Those that change places are of one
// origin, since origins only go forward.
void sort_marks(Points& text) {
  const auto by_class = [](const Placed& a, const Placed& b) {
    return combining_class(a.point) < combining_class(b.point);
  };
  for (size_t first = 0; first < text.size();) {
    if (combining_class(text[first].point) == 0) {
      ++first;
      continue;
    }
    size_t last = first + 1;
    while (last < text.size() && combining_class(text[last].point) != 0) ++last;
    const std::span marks = std::span(text).subspan(first, last - first);
    if (!std::is_sorted(marks.begin(), marks.end(), by_class)) {
      const size_t begin = marks.front().begin, end = marks.back().end;
      std::stable_sort(marks.begin(), marks.end(), by_class);
      for (auto& mark : marks) mark = {mark.point, begin, end};
    }
    first = last;
  }
}

char32_t compose(char32_t first, char32_t second) {  // 0: they do not
  if (first - kLeading < kLeadings && second - kVowel < kVowels)
    return kSyllable + ((first - kLeading) * kVowels + second - kVowel) * kTrailings;
  if (first - kSyllable < kSyllables && (first - kSyllable) % kTrailings == 0 &&
      second - kTrailing - 1 < kTrailings - 1)
    return first + second - kTrailing;
  const auto found = tables().composed.find(pair_of(first, second));
  return found == tables().composed.end() ? 0 : found->second;
}

Points composed(const Points& text) {
  Points out;
  out.reserve(text.size());
  size_t base = std::u32string::npos;  // in `out`
  int before = -1;                     // class of the last mark kept since the base; -1: none
  for (const Placed& placed : text) {
    const int kind = combining_class(placed.point);
    if (base != std::u32string::npos && before < kind) {
      if (const char32_t both = compose(out[base].point, placed.point); both != 0) {
        out[base] = {both, out[base].begin, placed.end};
        continue;
      }
    }
    if (kind == 0) {
      base = out.size();
      before = -1;
    } else {
      before = kind;
    }
    out.push_back(placed);
  }
  return out;
}

bool composes_to(const std::u32string& parts, char32_t whole) {
  Points points;
  for (const char32_t part : parts) points.push_back({part, 0, 0});
  const auto out = composed(points);
  return out.size() == 1 && out[0].point == whole;
}

// Characters that the form changes, or that may join or move past the one before. Any other begins a stretch of its
// own.
std::vector<bool> unsettled(NormalForm form) {
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const bool composes = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  std::vector<bool> flags(0x110000);
  for (const auto& [point, kind] : tables().combining) flags[point] = true;
  for (const auto& [point, parts] : compatible ? tables().compatible : tables().canonical)
    flags[point] = flags[point] || !composes || !composes_to(parts, point);
  if (!composes) {
    std::fill_n(flags.begin() + kSyllable, kSyllables, true);
    return flags;
  }
  for (const auto& [parts, whole] : tables().composed) flags[parts & 0xFFFFFFFF] = true;
  std::fill_n(flags.begin() + kVowel, kVowels, true);
  std::fill_n(flags.begin() + kTrailing, kTrailings, true);
  return flags;
}

const std::vector<bool>& unsettled_in(NormalForm form) {
  static const std::vector<bool> flags[] = {unsettled(NormalForm::kNfc), unsettled(NormalForm::kNfd),
                                            unsettled(NormalForm::kNfkc), unsettled(NormalForm::kNfkd)};
  return flags[static_cast<int>(form)];
}

void rewrite_stretch(std::string_view text, size_t begin, size_t end, NormalForm form, Rewrite& out) {
  auto points = decomposed(text, begin, end, form == NormalForm::kNfkc || form == NormalForm::kNfkd);
  sort_marks(points);
  if (form == NormalForm::kNfc || form == NormalForm::kNfkc) points = composed(points);
  std::string spelled;
  for (const auto& placed : points) {
    spelled.clear();
    text::append_utf8(spelled, placed.point);
    out.put(spelled, placed.begin, placed.end);
  }
}

std::vector<bool> flags_of(const char* table) {
  std::vector<bool> flags(0x110000);
  text::PackedNumbers numbers(table);
  for (std::ptrdiff_t point = 0; numbers.more();) {
    point += numbers.next();
    const auto count = static_cast<std::ptrdiff_t>(numbers.next());
    std::fill_n(flags.begin() + point, count, true);
    point += count;
  }
  return flags;
}

}  // namespace

TracedText normalized(const TracedText& traced, NormalForm form) {
  const auto& flags = unsettled_in(form);
  const std::string& text = traced.text();
  Rewrite out(traced);
  size_t copied = 0, settled = 0;  // up to where `out` goes, and the last character that begins a stretch
  for (size_t at = 0; at < text.size();) {
    const size_t size = text::char_size(text[at]);
    if (size == 1 || !flags[text::char_at(text.data() + at)]) {
      settled = at;
      at += size;
      continue;
    }
    size_t end = at + size;
    while (end < text.size() && flags[text::char_at(text.data() + end)]) end += text::char_size(text[end]);
    out.keep(copied, settled);
    rewrite_stretch(text, settled, end, form, out);
    copied = settled = at = end;
  }
  out.keep(copied, text.size());
  return out.finish();
}

std::string normalized(std::string_view text, NormalForm form) { return normalized(TracedText(text), form).text(); }

bool is_mark(char32_t point) {
  static const auto flags = flags_of(kMarkTable);
  return flags[point];
}

bool is_accent(char32_t point) {
  static const auto flags = flags_of(kAccentTable);
  return flags[point];
}

}  // namespace hyperion::tokenizers
