#include "hyperion/text/json_text.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "hyperion/text/unicode.h"

namespace hyperion::text {
namespace {

static_assert(std::endian::native == std::endian::little, "find_string_break reads eight bytes as one number");
constexpr int kMaxJsonDepth = 200;
constexpr size_t kMostParts = 65536;  // of what is kept: a view takes more memory than the shortest part it shows

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

char32_t hex4(const char* digits) {
  char32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 4 | static_cast<char32_t>(hex_digit(digits[i]));
  return value;
}

bool is_high_half(char32_t unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool is_low_half(char32_t unit) { return unit >= 0xDC00 && unit < 0xE000; }
bool is_json_digit(char c) { return c >= '0' && c <= '9'; }

// Goes through text, and stops with a JsonError where it is not JSON.
class Walk {
 public:
  explicit Walk(std::string_view text) : begin_(text.data()), at_(begin_), end_(begin_ + text.size()) {}

  const char* at() const { return at_; }
  char peek() const { return at_ < end_ ? *at_ : '\0'; }  // a NUL is no JSON anywhere, so it can stand for the end
  [[noreturn]] void fail(const char* what) const {
    throw JsonError{static_cast<size_t>(at_ - begin_), at_ < end_ ? what : "it ends too early"};
  }
  void expect(char c, const char* what) {
    if (peek() != c) fail(what);
    ++at_;
  }
  void space() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }
  void expect_end() {
    space();
    if (at_ < end_) fail("something follows its end");
  }

  // Each takes (begin, end) of the parts it walks over.
  template <class Take>
  void object(int depth, Take take) {
    enter('{', depth);
    if (leave('}')) return;
    for (;;) {
      if (peek() != '"') fail("a key in quotes is missing");
      const char* key = at_ + 1;
      string();
      const char* key_end = at_ - 1;
      space();
      expect(':', "a ':' is missing");
      space();
      const char* value_begin = at_;
      value(depth + 1);
      take(key, key_end, value_begin, at_);
      if (!more('}', "a ',' or '}' is missing")) return;
    }
  }
  template <class Take>
  void array(int depth, Take take) {
    enter('[', depth);
    if (leave(']')) return;
    for (;;) {
      const char* value_begin = at_;
      value(depth + 1);
      take(value_begin, at_);
      if (!more(']', "a ',' or ']' is missing")) return;
    }
  }

 private:
  void enter(char c, int depth) {
    expect(c, c == '{' ? "it is not an object" : "it is not an array");
    if (depth >= kMaxJsonDepth) fail("it nests more than 200 deep");
    space();
  }
  bool leave(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  bool more(char close, const char* what) {
    space();
    if (leave(close)) return false;
    expect(',', what);
    space();
    return true;
  }

  void value(int depth) {
    switch (peek()) {
      case '{':
        return object(depth, [](const char*, const char*, const char*, const char*) {});
      case '[':
        return array(depth, [](const char*, const char*) {});
      case '"':
        return string();
      case 't':
        return word("true");
      case 'f':
        return word("false");
      case 'n':
        return word("null");
      default:
        return number();
    }
  }

  void word(std::string_view expected) {
    for (const char c : expected) expect(c, "no value begins so");
  }

  void number() {
    if (peek() == '-') ++at_;
    if (!is_json_digit(peek())) fail("a value is missing");
    if (*at_++ != '0') digits();
    if (peek() == '.') {
      ++at_;
      if (!is_json_digit(peek())) fail("a digit is missing");
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!is_json_digit(peek())) fail("a digit is missing");
      digits();
    }
  }
  void digits() {
    while (is_json_digit(peek())) ++at_;
  }

  void string() {
    ++at_;
    for (;;) {
      at_ = find_string_break(at_, end_);
      if (at_ == end_) fail("");
      if (*at_ == '"') break;
      if (*at_ != '\\') fail("a control character stands in a string");
      ++at_;
      escape();
    }
    ++at_;
  }

  void escape() {
    if (peek() != 'u') {
      if (peek() == '\0' || std::strchr("\"\\/bfnrt", *at_) == nullptr) fail("an escape is not known");
      ++at_;
      return;
    }
    const char32_t unit = code_unit();
    if (is_low_half(unit)) fail("half of a surrogate pair stands alone");
    if (!is_high_half(unit)) return;
    if (peek() != '\\' || end_ - at_ < 2 || at_[1] != 'u') fail("half of a surrogate pair stands alone");
    ++at_;
    if (!is_low_half(code_unit())) fail("half of a surrogate pair stands alone");
  }

  char32_t code_unit() {
    ++at_;
    const char* digits = at_;
    for (int i = 0; i < 4; ++i, ++at_)
      if (hex_digit(peek()) < 0) fail("\\u needs four hexadecimal digits");
    return hex4(digits);
  }

  const char *begin_, *at_, *end_;
};

char plain_escape(char c) {
  switch (c) {
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return c;
  }
}

std::string unescaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char *at = text.data(), *end = at + text.size(); at < end;) {
    const void* found = std::memchr(at, '\\', static_cast<size_t>(end - at));
    const char* plain_end = found != nullptr ? static_cast<const char*>(found) : end;
    out.append(at, plain_end);
    if (plain_end == end) break;
    at = plain_end + 2;
    if (plain_end[1] != 'u') {
      out += plain_escape(plain_end[1]);
      continue;
    }
    char32_t point = hex4(at);
    at += 4;
    if (is_high_half(point)) {
      point = 0x10000 + ((point - 0xD800) << 10) + (hex4(at + 2) - 0xDC00);
      at += 6;
    }
    append_utf8(out, point);
  }
  return out;
}

}  // namespace

// In each byte of a word: (byte - n) borrows into its top bit where the byte is less than n, and a byte that is equal
// to another is 0 after an exclusive or. Borrows only reach bytes behind the first that matches.
const char* find_string_break(const char* begin, const char* end) {
  constexpr uint64_t kOnes = 0x0101010101010101u, kTops = 0x80 * kOnes;
  for (; end - begin >= 8; begin += 8) {
    uint64_t word;
    std::memcpy(&word, begin, 8);
    const uint64_t quote = word ^ '"' * kOnes, backslash = word ^ '\\' * kOnes;
    const uint64_t found =
        (((quote - kOnes) & ~quote) | ((backslash - kOnes) & ~backslash) | ((word - 0x20 * kOnes) & ~word)) & kTops;
    if (found != 0) return begin + std::countr_zero(found) / 8;
  }
  for (; begin < end; ++begin)
    if (*begin == '"' || *begin == '\\' || static_cast<unsigned char>(*begin) < 0x20) return begin;
  return end;
}

std::vector<JsonMember> json_members(std::string_view object) {
  std::vector<JsonMember> members;
  members.reserve(8);
  Walk walk(object);
  walk.space();
  walk.object(0, [&](const char* key, const char* key_end, const char* value, const char* value_end) {
    if (members.size() == kMostParts) walk.fail("it has more than 65536 members");
    members.push_back({{key, static_cast<size_t>(key_end - key)}, {value, static_cast<size_t>(value_end - value)}});
  });
  walk.expect_end();
  return members;
}

std::vector<std::string_view> json_elements(std::string_view array) {
  std::vector<std::string_view> elements;
  Walk walk(array);
  walk.space();
  walk.array(0, [&](const char* begin, const char* end) {
    if (elements.size() == kMostParts) walk.fail("it has more than 65536 elements");
    elements.emplace_back(begin, static_cast<size_t>(end - begin));
  });
  walk.expect_end();
  return elements;
}

bool json_key_is(std::string_view key, std::string_view wanted) {
  return key == wanted || (key.find('\\') != std::string_view::npos && unescaped(key) == wanted);
}

const char* json_kind(std::string_view value) {
  switch (value[0]) {
    case '{':
      return "an object";
    case '[':
      return "an array";
    case '"':
      return "text";
    case 't':
    case 'f':
      return "true or false";
    case 'n':
      return "null";
    default:
      return "a number";
  }
}

std::string json_string(std::string_view value) { return unescaped(value.substr(1, value.size() - 2)); }

}  // namespace hyperion::text
