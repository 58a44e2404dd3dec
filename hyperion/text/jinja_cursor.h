// Where the parser stands among a template's tokens, how deep and after how many operators of a tag.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hyperion/base/format.h"
#include "hyperion/text/jinja_tree.h"

namespace hyperion::text::jinja {

constexpr int kMaxDepth = 200;
constexpr int kMaxLinks = 500;

class TokenCursor {
 protected:
  using Kind = Token::Kind;
  explicit TokenCursor(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  // How deep the reader itself stands: a hostile template must not end the stack.
  struct Depth {
    explicit Depth(TokenCursor& cursor) : cursor(cursor) {
      if (++cursor.depth_ > kMaxDepth) cursor.fail(base::format("it nests more than {} deep", kMaxDepth));
    }
    ~Depth() { --cursor.depth_; }
    TokenCursor& cursor;
  };

  // One more operator, part or filter of the tag, each of which may deepen its tree by one; or several.
  void link(int count = 1) {
    if ((links_ += count) > kMaxLinks) fail(base::format("a tag has more than {} operators", kMaxLinks));
  }
  const Token& now() const { return tokens_[at_]; }
  [[noreturn]] void fail(const std::string& what) const { throw Fault(now().line, what); }
  std::string seen() const {
    switch (now().kind) {
      case Kind::kPrintEnd:
      case Kind::kBlockEnd:
        return "the end of the tag";
      case Kind::kString:
        return "a string";
      default:
        return "\"" + now().text + "\"";
    }
  }
  bool is(Kind kind, std::string_view text) const { return now().kind == kind && now().text == text; }
  bool take(Kind kind, std::string_view text) {
    if (!is(kind, text)) return false;
    ++at_;
    return true;
  }
  bool take_sign(std::string_view text) { return take(Kind::kSign, text); }
  bool take_word(std::string_view text) { return take(Kind::kName, text); }
  void need(Kind kind, std::string_view text) {
    if (!take(kind, text)) fail(base::format("\"{}\" is needed where {} stands", text, seen()));
  }
  void need_sign(std::string_view text) { need(Kind::kSign, text); }
  std::string need_name() {
    if (now().kind != Kind::kName) fail(base::format("a name is needed where {} stands", seen()));
    return tokens_[at_++].text;
  }
  void end_block() {
    if (now().kind != Kind::kBlockEnd) fail(base::format("{} is not known here", seen()));
    ++at_;
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0, links_ = 0;
};

}  // namespace hyperion::text::jinja
