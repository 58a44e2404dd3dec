#include <algorithm>

#include "hyperion/base/format.h"
#include "hyperion/text/jinja_tree.h"
#include "hyperion/text/unicode.h"

namespace hyperion::text::jinja {
namespace {

using Kind = Token::Kind;
constexpr std::string_view kSpace = " \t\n\r\v\f";

std::string with_plain_newlines(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_number_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_plain_newlines(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) text();
    add(Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  void add(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  bool next_is(std::string_view word) const { return std::string_view(source_).substr(at_).starts_with(word); }
  void skip(size_t count) {
    line_ += static_cast<int>(std::count(source_.begin() + at_, source_.begin() + at_ + count, '\n'));
    at_ += count;
  }
  void skip_spaces() { skip(std::min(source_.find_first_not_of(kSpace, at_), source_.size()) - at_); }

  size_t next_tag() const {
    size_t tag = source_.find('{', at_);
    while (tag != source_.npos &&
           (tag + 1 == source_.size() || std::string_view("{%#").find(source_[tag + 1]) == std::string_view::npos))
      tag = source_.find('{', tag + 1);
    return tag;
  }

  // Text up to the next tag, then that tag.
  void text() {
    const size_t tag = next_tag();
    std::string text = source_.substr(at_, std::min(tag, source_.size()) - at_);
    const bool line_start = at_ == 0 || source_[at_ - 1] == '\n';
    const char mark = tag != source_.npos && tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    const size_t length = text.size();
    if (tag != source_.npos) {
      if (mark == '-') {
        text.erase(text.find_last_not_of(kSpace) + 1);
      } else if (mark != '+' && source_[tag + 1] != '{') {
        const size_t newline = text.rfind('\n');
        const size_t from = newline == text.npos ? 0 : newline + 1;
        if ((newline != text.npos || line_start) && text.find_first_not_of(" \t", from) == text.npos) text.erase(from);
      }
    }
    if (!text.empty()) add(Kind::kText, text);
    skip(length);
    if (tag == source_.npos) return;
    const char kind = source_[at_ + 1];
    skip(mark == '-' || mark == '+' ? 3 : 2);
    if (kind == '#') return comment();
    add(kind == '{' ? Kind::kPrintBegin : Kind::kBlockBegin, "");
    inside(kind == '{' ? "}}" : "%}", kind == '{' ? Kind::kPrintEnd : Kind::kBlockEnd);
  }

  void comment() {
    const size_t end = source_.find("#}", at_);
    if (end == source_.npos) throw Fault(line_, "a comment has no end");
    const char mark = end > at_ ? source_[end - 1] : ' ';
    skip(end + 2 - at_);
    after_tag(mark, true);
  }

  void after_tag(char mark, bool trims) {
    if (mark == '-')
      skip_spaces();
    else if (mark != '+' && trims && next_is("\n"))
      skip(1);
  }

  void inside(std::string_view end, Kind kind) {
    const int begin = line_;
    for (int open = 0;; skip_token(open)) {
      skip_spaces();
      if (at_ >= source_.size()) throw Fault(begin, base::format("a tag has no {}", end));
      const char mark = source_[at_];
      const bool marked = mark == '-' || mark == '+';
      if (open == 0 && std::string_view(source_).substr(at_ + (marked ? 1 : 0)).starts_with(end)) {
        add(kind, "");
        skip(end.size() + (marked ? 1 : 0));
        return after_tag(marked ? mark : ' ', kind == Kind::kBlockEnd);
      }
    }
  }

  void skip_token(int& open) {
    const char c = source_[at_];
    if (c == '"' || c == '\'') return string(c);
    if (is_number_digit(c)) return number();
    if (starts_name(c)) {
      size_t end = at_;
      while (end < source_.size() && (starts_name(source_[end]) || is_number_digit(source_[end]))) ++end;
      add(Kind::kName, source_.substr(at_, end - at_));
      return skip(end - at_);
    }
    for (const std::string_view sign : {"**", "//", "==", "!=", ">=", "<="})
      if (next_is(sign)) {
        add(Kind::kSign, std::string(sign));
        return skip(2);
      }
    if (std::string_view("+-*/%~[](){}<>=.:|,").find(c) == std::string_view::npos)
      throw Fault(line_, base::format("the character '{}' has no meaning in a tag", c));
    open += c == '(' || c == '[' || c == '{';
    open -= c == ')' || c == ']' || c == '}';
    if (open < 0) throw Fault(line_, base::format("'{}' closes nothing", c));
    add(Kind::kSign, std::string(1, c));
    skip(1);
  }

  void number() {
    size_t end = at_;
    const auto digits = [&] {
      while (end < source_.size() && (is_number_digit(source_[end]) || source_[end] == '_')) ++end;
    };
    digits();
    if (end + 1 < source_.size() && source_[end] == '.' && is_number_digit(source_[end + 1])) {
      ++end;
      digits();
    }
    if (const size_t sign = source_.find_first_not_of("eE", end); sign == end + 1 && sign != source_.npos) {
      const size_t power = sign + (source_[sign] == '+' || source_[sign] == '-');
      if (power < source_.size() && is_number_digit(source_[power])) {
        end = power;
        digits();
      }
    }
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    add(Kind::kNumber, text);
    skip(end - at_);
  }

  void string(char quote) {
    const int begin = line_;
    std::string out;
    size_t i = at_ + 1;
    for (; i < source_.size() && source_[i] != quote; ++i) {
      if (source_[i] == '\\' && i + 1 < source_.size())
        escape(++i, out);
      else
        out += source_[i];
    }
    if (i >= source_.size()) throw Fault(begin, "a string has no end");
    add(Kind::kString, std::move(out));
    skip(i + 1 - at_);
  }

  // `i`: the letter after the backslash, and then the last letter of the escape.
  void escape(size_t& i, std::string& out) {
    constexpr std::string_view letters = "abfnrtv\\'\"", meanings = "\a\b\f\n\r\t\v\\'\"";
    const char c = source_[i];
    if (const size_t known = letters.find(c); known != letters.npos) {
      out += meanings[known];
    } else if (const int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0; digits > 0) {
      const std::string hex = source_.substr(i + 1, digits);
      if (hex.size() < size_t(digits) || hex.find_first_not_of("0123456789abcdefABCDEF") != hex.npos)
        throw Fault(line_, base::format("\\{}{} is not an escape", c, hex));
      const auto point = static_cast<uint32_t>(std::stoul(hex, nullptr, 16));
      if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
        throw Fault(line_, base::format("\\{}{} is not a character", c, hex));
      append_utf8(out, point);
      i += digits;
    } else if (c >= '0' && c <= '7') {
      throw Fault(line_, "octal escapes in strings are not known here");
    } else if (c != '\n') {
      out += '\\';
      out += c;
    }
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source) { return Lexer(source).run(); }

}  // namespace hyperion::text::jinja
