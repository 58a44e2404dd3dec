#include "hyperion/tokenizers/scanner.h"

#include <cstdint>
#include <utility>

namespace hyperion::tokenizers {
namespace {

struct Scan {
  const text::ClassPages& pages;
  const char* end;

  text::CharClass kind(const char* at) const {
    const auto byte = static_cast<unsigned char>(*at);
    return byte < 0x80 ? pages.entries[size_t{pages.page[0]} * 256 + byte] : text::class_in(pages, text::char_at(at));
  }

  static bool is_rest(text::CharClass kind) {
    return !text::is_space(kind) && !text::is_letter(kind) && !text::is_number(kind);
  }

  template <class Wanted>
  const char* run(const char* at, Wanted wanted) const {
    while (at < end && wanted(kind(at))) at += text::char_size(*at);
    return at;
  }
  const char* letters(const char* at) const { return run(at, text::is_letter); }
  const char* numbers(const char* at) const { return run(at, text::is_number); }
  const char* rest(const char* at) const { return run(at, is_rest); }

  // 's 't 're 've 'm 'll 'd after the apostrophe at `at`; null when it is none of them.
  const char* contraction(const char* at, bool any_case) const {
    const auto letter = [&](const char* from) -> char {
      if (from >= end) return 0;
      return static_cast<char>(any_case && *from >= 'A' && *from <= 'Z' ? *from + 32 : *from);
    };
    const char first = letter(at + 1);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    const char second = first == 0 ? '\0' : letter(at + 2);
    if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l'))
      return at + 3;
    // The long s is an s where case does not count.
    if (any_case && first == '\xC5' && second == '\xBF') return at + 3;
    return nullptr;
  }

  // \s+(?!\S)|\s+ over white space from `at` to `stop`: all of it at the end of the text, else all but the last
  // character, which goes with what follows; a lone one by itself.
  const char* spaces(const char* at, const char* stop) const {
    if (stop == end) return stop;
    const char* last = stop - 1;
    while ((*last & 0xC0) == 0x80) --last;
    return last == at ? stop : last;
  }
};

// '(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
const char* gpt2_piece(const Scan& scan, const char* at) {
  if (*at == '\'')
    if (const char* stop = scan.contraction(at, false)) return stop;
  const char* from = *at == ' ' && at + 1 < scan.end ? at + 1 : at;
  const text::CharClass kind = scan.kind(from);
  const char* next = from + text::char_size(*from);
  if (text::is_letter(kind)) return scan.letters(next);
  if (text::is_number(kind)) return scan.numbers(next);
  if (!text::is_space(kind)) return scan.rest(next);
  return scan.spaces(at, scan.run(next, text::is_space));
}

const char* line_break_spaces(const Scan& scan, const char* at, bool whole_at_end) {
  const char* stop = at;
  const char* after_break = nullptr;
  for (; stop < scan.end && text::is_space(scan.kind(stop)); stop += text::char_size(*stop))
    if (*stop == '\r' || *stop == '\n') after_break = stop + 1;
  if (whole_at_end && stop == scan.end) return stop;
  return after_break != nullptr ? after_break : scan.spaces(at, stop);
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
const char* gpt4_piece(const Scan& scan, const char* at, int digits, bool whole_at_end) {
  if (*at == '\'')
    if (const char* stop = scan.contraction(at, true)) return stop;
  const text::CharClass kind = scan.kind(at);
  const char* next = at + text::char_size(*at);
  if (text::is_letter(kind)) return scan.letters(next);
  if (text::is_number(kind)) {
    for (int i = 1; i < digits && next < scan.end && text::is_number(scan.kind(next)); ++i)
      next += text::char_size(*next);
    return next;
  }
  const text::CharClass second = next < scan.end ? scan.kind(next) : text::CharClass::kSpace;
  if (text::is_letter(second) && *at != '\r' && *at != '\n') return scan.letters(next);
  if (!text::is_space(kind) || (*at == ' ' && Scan::is_rest(second))) {
    const char* stop = scan.rest(next);
    while (stop < scan.end && (*stop == '\r' || *stop == '\n')) ++stop;
    return stop;
  }
  return line_break_spaces(scan, at, whole_at_end);
}

bool may_lead(text::CharClass kind) {
  return kind == text::CharClass::kMark || (text::is_letter(kind) && kind != text::CharClass::kLower);
}
bool is_caseless(text::CharClass kind) {
  return kind == text::CharClass::kMark || kind == text::CharClass::kModifier || kind == text::CharClass::kOtherLetter;
}
bool may_follow(text::CharClass kind) { return kind == text::CharClass::kLower || is_caseless(kind); }

// [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+ from `at`; null where there is none. What may both lead
// and follow is given back by the first part until one is left for the second.
const char* cased_word(const Scan& scan, const char* at) {
  const char* after_caseless = nullptr;
  const char* stop = at;
  for (; stop < scan.end && may_lead(scan.kind(stop));) {
    const bool caseless = is_caseless(scan.kind(stop));
    stop += text::char_size(*stop);
    if (caseless) after_caseless = stop;
  }
  const char* end = scan.run(stop, may_follow);
  return end > stop ? end : after_caseless;
}

// The words of either alternative, then as Llama 3 but for the slashes after other characters:
// [^\r\n\p{L}\p{N}]?WORD(?i:'s|...)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+(?i:'s|...)?
const char* o200k_word(const Scan& scan, const char* at) {
  const text::CharClass kind = scan.kind(at);
  const char* next = at + text::char_size(*at);
  const bool leads = !text::is_letter(kind) && !text::is_number(kind) && *at != '\r' && *at != '\n' && next < scan.end;
  const char* stop = leads ? cased_word(scan, next) : nullptr;
  if (stop == nullptr) stop = cased_word(scan, at);
  if (stop == nullptr && leads) {
    stop = scan.run(next, may_lead);
    if (stop == next) stop = nullptr;
  }
  if (stop == nullptr) {
    stop = scan.run(at, may_lead);
    if (stop == at) return nullptr;
  }
  const char* contracted = stop < scan.end && *stop == '\'' ? scan.contraction(stop, true) : nullptr;
  return contracted != nullptr ? contracted : stop;
}

const char* o200k_piece(const Scan& scan, const char* at) {
  if (const char* stop = o200k_word(scan, at)) return stop;
  const text::CharClass kind = scan.kind(at);
  const char* next = at + text::char_size(*at);
  if (text::is_number(kind)) {
    for (int i = 1; i < 3 && next < scan.end && text::is_number(scan.kind(next)); ++i) next += text::char_size(*next);
    return next;
  }
  const text::CharClass second = next < scan.end ? scan.kind(next) : text::CharClass::kSpace;
  if (text::is_space(kind) && !(*at == ' ' && Scan::is_rest(second))) return line_break_spaces(scan, at, false);
  const char* stop = scan.rest(next);
  while (stop < scan.end && (*stop == '\r' || *stop == '\n' || *stop == '/')) ++stop;
  return stop;
}

constexpr std::pair<std::string_view, Pattern> kPatternNames[] = {{"gpt2", Pattern::kGpt2},
                                                                  {"llama3", Pattern::kLlama3},
                                                                  {"qwen2", Pattern::kQwen2},
                                                                  {"cl100k", Pattern::kCl100k},
                                                                  {"o200k", Pattern::kO200k}};

// Every spelling of the same cuts that is met in published files.
constexpr std::pair<std::string_view, Pattern> kExpressions[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", Pattern::kGpt2},
    {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s)", Pattern::kGpt2},
    {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", Pattern::kGpt2},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Pattern::kLlama3},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Pattern::kQwen2},
    {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)",
     Pattern::kCl100k},
    {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
     Pattern::kLlama3},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Pattern::kO200k},
};

bool is_ascii_letter(char byte) { return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z'); }

}  // namespace

std::optional<Pattern> pattern_named(std::string_view name) {
  for (const auto& [known, pattern] : kPatternNames)
    if (known == name) return pattern;
  return std::nullopt;
}

std::optional<Pattern> pattern_of_expression(std::string_view text) {
  for (const auto& [known, pattern] : kExpressions)
    if (known == text) return pattern;
  return std::nullopt;
}

std::string_view expression_of(Pattern pattern) {
  for (const auto& [known, meant] : kExpressions)
    if (meant == pattern) return known;
  return {};
}

const char* piece_end(Pattern pattern, const text::ClassPages& pages, const char* at, const char* end) {
  const Scan scan{pages, end};
  switch (pattern) {
    case Pattern::kGpt2:
      return gpt2_piece(scan, at);
    case Pattern::kLlama3:
      return gpt4_piece(scan, at, 3, false);
    case Pattern::kQwen2:
      return gpt4_piece(scan, at, 1, false);
    case Pattern::kCl100k:
      return gpt4_piece(scan, at, 3, true);
    case Pattern::kO200k:
      return o200k_piece(scan, at);
  }
  return end;
}

bool always_cuts(std::string_view text, size_t at) {
  return at > 0 && at + 1 < text.size() && is_ascii_letter(text[at - 1]) && text[at] == ' ' &&
         is_ascii_letter(text[at + 1]);
}

}  // namespace hyperion::tokenizers
