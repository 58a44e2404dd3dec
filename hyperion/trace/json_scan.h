// Steps over JSON text in place, as quick as it goes: what a trace of gigabytes is read with. They look at structure
// alone; text::json_members and its like check what is kept.
#pragma once
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hyperion::trace {

// Thrown where the text cannot go on so; `at` is the end of the text where that was merely cut.
struct ScanFault {
  const char* at;
  const char* what;  // "a ':' is missing"
};

constexpr size_t kScanPadding = 32;  // bytes that may be read behind the end, whatever they are
constexpr int kDeepest = 200;        // levels of nesting

inline bool is_json_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

inline const char* skip_space(const char* at, const char* end) {
  while (at < end && is_json_space(*at)) ++at;
  return at;
}

// The byte that must stand here; returns what follows it.
inline const char* expect(const char* at, const char* end, char wanted, const char* what) {
  if (at >= end || *at != wanted) throw ScanFault{at >= end ? end : at, what};
  return at + 1;
}

// The next quote or backslash from here on; `end` or later where there is none.
inline const char* find_quote(const char* at, const char* end) {
#ifdef __SSE2__
  const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
  for (; at < end; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const int found = _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, slash)));
    if (found != 0) return at + __builtin_ctz(static_cast<unsigned>(found));
  }
#else
  while (at < end && *at != '"' && *at != '\\') ++at;
#endif
  return at;
}

// `at` follows the opening quote; returns the closing one.
inline const char* string_end(const char* at, const char* end) {
  for (;;) {
    at = find_quote(at, end);
    if (at >= end) throw ScanFault{end, "a string does not end"};
    if (*at == '"') return at;
    at += 2;
  }
}

// What is between the quotes of the string at `at`, which moves behind it.
inline std::string_view take_string(const char*& at, const char* end) {
  const char* begin = expect(at, end, '"', "a string is missing");
  const char* last = string_end(begin, end);
  at = last + 1;
  return {begin, static_cast<size_t>(last - begin)};
}

// The whole value at `at`, which moves behind it: brackets and quotes are matched, nothing else is looked at.
std::string_view take_value(const char*& at, const char* end);

struct ScannedNumber {
  int64_t digits = 0;  // of both sides of the point, with the sign
  int fraction = -1;   // how many follow the point; -1: there is none
  bool plain = false;  // at most 18 digits, no exponent, written as this program would write it; else the rest is void
};

// The number at `at`, which moves behind it.
inline ScannedNumber take_number(const char*& at, const char* end) {
  const char* begin = at;
  const bool negative = *at == '-';
  if (negative) ++at;
  ScannedNumber number;
  const char* first = at;
  uint64_t digits = 0;  // more than 18 of them run over, and are not used
  for (; at < end && static_cast<unsigned char>(*at - '0') < 10; ++at)
    digits = digits * 10 + static_cast<unsigned char>(*at - '0');
  const auto whole = at - first;
  auto count = whole;
  if (at < end && *at == '.') {
    const char* point = at++;
    for (; at < end && static_cast<unsigned char>(*at - '0') < 10; ++at)
      digits = digits * 10 + static_cast<unsigned char>(*at - '0');
    number.fraction = static_cast<int>(at - point - 1);
    count += number.fraction;
  }
  if (at >= end) throw ScanFault{end, "a number may go on"};
  const bool odd = *at == 'e' || *at == 'E' || *at == '+' || *at == '-';
  if (odd)
    while (at < end &&
           ((*at >= '0' && *at <= '9') || *at == 'e' || *at == 'E' || *at == '+' || *at == '-' || *at == '.'))
      ++at;
  if (at >= end) throw ScanFault{end, "a number may go on"};
  if (at == begin) throw ScanFault{at, "no value begins so"};
  number.digits = negative ? -static_cast<int64_t>(digits) : static_cast<int64_t>(digits);
  number.plain = !odd && whole > 0 && count <= 18 && number.fraction != 0 && (whole == 1 || *first != '0') &&
                 !(negative && digits == 0);
  return number;
}

}  // namespace hyperion::trace
