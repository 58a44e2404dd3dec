#include <cstdlib>

#include "hyperion/base/format.h"
#include "hyperion/text/jinja_cursor.h"

namespace hyperion::text::jinja {
namespace {

using E = Expression::Kind;
using S = Statement::Kind;

class Parser : TokenCursor {
 public:
  explicit Parser(std::vector<Token> tokens) : TokenCursor(std::move(tokens)) {}

  std::vector<Statement> run() {
    auto out = body({});
    if (now().kind != Kind::kEnd) fail(base::format("{{% {} %}} closes nothing", tokens_[at_ + 1].text));
    return out;
  }

 private:
  // Up to {% one of `ends` %}, whose word is next; or to the end.
  std::vector<Statement> body(std::initializer_list<std::string_view> ends) {
    const Depth depth(*this);
    std::vector<Statement> out;
    for (;;) {
      const int line = now().line;
      links_ = 0;
      if (now().kind == Kind::kEnd) {
        if (ends.size() > 0) fail(base::format("{{% {} %}} is missing", *(ends.end() - 1)));
        return out;
      }
      if (now().kind == Kind::kText) {
        out.push_back({S::kText, line, tokens_[at_++].text, {}, {}, {}, {}, {}});
      } else if (now().kind == Kind::kPrintBegin) {
        ++at_;
        out.push_back({S::kPrint, line, {}, {}, {}, {}, {}, {}});
        out.back().expressions.push_back(tuple());
        if (now().kind != Kind::kPrintEnd) fail(base::format("{} is not known here", seen()));
        ++at_;
      } else {
        const std::string word = tokens_[at_ + 1].text;
        for (const auto end : ends)
          if (word == end) {
            ++at_;
            return out;
          }
        if (word.starts_with("end") || word == "else" || word == "elif")
          throw Fault(line, base::format("{{% {} %}} closes nothing", word));
        ++at_;
        out.push_back(block(line));
      }
    }
  }

  Statement block(int line) {
    Statement out{S::kText, line, {}, {}, {}, {}, {}, {}};
    const std::string word = need_name();
    if (word == "if") return if_block(line);
    if (word == "for") return for_block(line);
    if (word == "set") return set_block(line);
    if (word == "macro") return macro_block(line);
    if (word == "break" || word == "continue") {
      out.kind = word == "break" ? S::kBreak : S::kContinue;
      end_block();
      return out;
    }
    if (word == "generation") {  // marks what the assistant says; the text is the same
      out.kind = S::kGeneration;
      end_block();
      out.body = body({"endgeneration"});
      ++at_;
      end_block();
      return out;
    }
    throw Fault(line, base::format("{{% {} %}} is not known here", word));
  }

  Statement if_block(int line) {
    const Depth depth(*this);
    Statement out{S::kIf, line, {}, {}, {}, {}, {}, {}};
    out.expressions.push_back(tuple());
    end_block();
    out.body = body({"elif", "else", "endif"});
    if (is(Kind::kName, "elif")) {
      const int other = now().line;
      ++at_;
      out.other.push_back(if_block(other));
      return out;
    }
    if (take_word("else")) {
      end_block();
      out.other = body({"endif"});
    }
    need(Kind::kName, "endif");
    end_block();
    return out;
  }

  Statement for_block(int line) {
    Statement out{S::kFor, line, {}, {}, {}, {}, {}, {}};
    const bool paren = take_sign("(");
    do out.names.push_back(need_name());
    while (take_sign(","));
    if (paren) need_sign(")");
    need(Kind::kName, "in");
    out.expressions.push_back(either());
    if (take_word("if")) out.expressions.push_back(expression());
    end_block();
    out.body = body({"else", "endfor"});
    if (take_word("else")) {
      end_block();
      out.other = body({"endfor"});
    }
    need(Kind::kName, "endfor");
    end_block();
    return out;
  }

  Statement set_block(int line) {
    Statement out{S::kSet, line, {}, {}, {}, {}, {}, {}};
    out.names.push_back(need_name());
    if (take_sign(".")) out.attribute = need_name();
    while (out.attribute.empty() && take_sign(",")) out.names.push_back(need_name());
    if (take_sign("=")) {
      out.expressions.push_back(tuple());
      end_block();
      return out;
    }
    out.kind = S::kSetBlock;
    end_block();
    out.body = body({"endset"});
    ++at_;
    end_block();
    return out;
  }

  Statement macro_block(int line) {
    Statement out{S::kMacro, line, need_name(), {}, {}, {}, {}, {}};
    need_sign("(");
    while (!take_sign(")")) {
      if (!out.names.empty()) need_sign(",");
      out.names.push_back(need_name());
      if (take_sign("="))
        out.expressions.push_back(expression());
      else if (!out.expressions.empty())
        fail("a parameter without a default follows one with it");
    }
    end_block();
    out.body = body({"endmacro"});
    ++at_;
    end_block();
    return out;
  }

  Expression node(E kind, std::string name = {}) const { return {kind, now().line, std::move(name), {}, {}, {}}; }
  Expression constant(Value value) const {
    auto out = node(E::kConstant);
    out.constant = std::move(value);
    return out;
  }
  Expression binary(std::string name, Expression left, Expression right) {
    link();
    auto out = node(E::kBinary, std::move(name));
    out.line = left.line;
    out.children.push_back(std::move(left));
    out.children.push_back(std::move(right));
    return out;
  }

  Expression tuple() {
    auto first = expression();
    if (!is(Kind::kSign, ",")) return first;
    auto out = node(E::kList);
    out.children.push_back(std::move(first));
    while (take_sign(",") && now().kind != Kind::kBlockEnd && now().kind != Kind::kPrintEnd && !is(Kind::kSign, ")"))
      out.children.push_back(expression());
    return out;
  }

  Expression expression() {
    const Depth depth(*this);
    auto out = either();
    while (take_word("if")) {
      auto condition = node(E::kCondition);
      condition.children.push_back(either());
      condition.children.push_back(std::move(out));
      if (take_word("else")) condition.children.push_back(expression());
      out = std::move(condition);
    }
    return out;
  }

  Expression either() {
    auto out = both();
    while (take_word("or")) out = binary("or", std::move(out), both());
    return out;
  }

  Expression both() {
    auto out = negation();
    while (take_word("and")) out = binary("and", std::move(out), negation());
    return out;
  }

  Expression negation() {
    const Depth depth(*this);
    if (!take_word("not")) return comparison();
    auto out = node(E::kUnary, "not");
    out.children.push_back(negation());
    return out;
  }

  std::string comparison_sign() {
    for (const std::string_view sign : {"==", "!=", "<", "<=", ">", ">="})
      if (take_sign(sign)) return std::string(sign);
    if (take_word("in")) return "in";
    if (is(Kind::kName, "not") && tokens_[at_ + 1].text == "in" && tokens_[at_ + 1].kind == Kind::kName) {
      at_ += 2;
      return "not in";
    }
    return {};
  }

  static int nodes_of(const Expression& it) {
    int count = 1;
    for (const auto& child : it.children) count += nodes_of(child);
    return count;
  }

  Expression comparison() {
    auto out = sum();
    const auto sign = comparison_sign();
    if (sign.empty()) return out;
    out = binary(sign, std::move(out), sum());
    for (auto next = comparison_sign(); !next.empty(); next = comparison_sign()) {
      auto& last = out.name == "and" ? out.children[1] : out;
      link(nodes_of(last.children[1]));  // what stands between two signs is written into both
      auto right = binary(next, last.children[1], sum());
      out = binary("and", std::move(out), std::move(right));
    }
    return out;
  }

  Expression sum() {
    auto out = joined();
    while (is(Kind::kSign, "+") || is(Kind::kSign, "-")) {
      const std::string sign = tokens_[at_++].text;
      out = binary(sign, std::move(out), joined());
    }
    return out;
  }

  Expression joined() {
    auto out = product();
    while (take_sign("~")) out = binary("~", std::move(out), product());
    return out;
  }

  Expression product() {
    auto out = unary(true);
    while (is(Kind::kSign, "*") || is(Kind::kSign, "/") || is(Kind::kSign, "//") || is(Kind::kSign, "%")) {
      const std::string sign = tokens_[at_++].text;
      out = binary(sign, std::move(out), unary(true));
    }
    if (is(Kind::kSign, "**")) fail("the operator ** is not known here");
    return out;
  }

  Expression unary(bool filters) {
    const Depth depth(*this);
    Expression out = node(E::kUnary);
    if (is(Kind::kSign, "-") || is(Kind::kSign, "+")) {
      out.name = tokens_[at_++].text;
      out.children.push_back(unary(false));
    } else {
      out = primary();
    }
    out = postfix(std::move(out));
    return filters ? filtered(std::move(out)) : out;
  }

  Expression primary() {
    const Token& token = now();
    if (token.kind == Kind::kString) {
      std::string text;
      while (now().kind == Kind::kString) text += tokens_[at_++].text;
      return constant(std::move(text));
    }
    if (token.kind == Kind::kNumber) {
      ++at_;
      if (token.text.size() > 18) throw Fault(token.line, base::format("the number {} is too long", token.text));
      return token.text.find_first_of(".eE") == token.text.npos ? constant(std::stoll(token.text))
                                                                : constant(std::strtod(token.text.c_str(), nullptr));
    }
    if (token.kind == Kind::kName) {
      ++at_;
      if (token.text == "true" || token.text == "True") return constant(true);
      if (token.text == "false" || token.text == "False") return constant(false);
      if (token.text == "none" || token.text == "None") return constant(nullptr);
      auto out = node(E::kName, token.text);
      out.line = token.line;
      return out;
    }
    if (take_sign("(")) {
      auto out = node(E::kList);
      if (take_sign(")")) return out;
      out = tuple();
      need_sign(")");
      return out;
    }
    if (take_sign("[")) return list("]", false);
    if (take_sign("{")) return list("}", true);
    fail(base::format("an expression is needed where {} stands", seen()));
  }

  Expression list(std::string_view end, bool pairs) {
    auto out = node(pairs ? E::kDict : E::kList);
    while (!take_sign(end)) {
      if (!out.children.empty()) need_sign(",");
      if (take_sign(end)) break;
      out.children.push_back(expression());
      if (!pairs) continue;
      need_sign(":");
      out.children.push_back(expression());
    }
    return out;
  }

  Expression postfix(Expression out) {
    for (;; link()) {
      if (take_sign(".")) {
        auto next = node(E::kAttribute, now().kind == Kind::kNumber ? tokens_[at_++].text : need_name());
        next.children.push_back(std::move(out));
        out = std::move(next);
      } else if (take_sign("[")) {
        out = subscript(std::move(out));
      } else if (take_sign("(")) {
        auto next = node(E::kCall);
        next.children.push_back(std::move(out));
        arguments(next);
        out = std::move(next);
      } else {
        return out;
      }
    }
  }

  Expression subscript(Expression of) {
    auto out = node(E::kItem);
    out.children.push_back(std::move(of));
    const auto part = [&] {
      const bool none = is(Kind::kSign, ":") || is(Kind::kSign, "]");
      out.children.push_back(none ? constant(nullptr) : expression());
    };
    if (is(Kind::kSign, "]")) fail("an index is missing");
    part();
    if (is(Kind::kSign, ":")) {
      out.kind = E::kSlice;
      while (take_sign(":")) part();
      if (out.children.size() > 4) fail("a slice has at most three parts");
      while (out.children.size() < 4) out.children.push_back(constant(nullptr));
    }
    need_sign("]");
    return out;
  }

  // After the "(": positional ones, then named ones.
  void arguments(Expression& call) {
    for (bool first = true; !take_sign(")"); first = false) {
      if (!first) need_sign(",");
      if (!first && take_sign(")")) return;
      if (now().kind == Kind::kName && tokens_[at_ + 1].kind == Kind::kSign && tokens_[at_ + 1].text == "=") {
        call.names.push_back(now().text);
        at_ += 2;
      } else if (!call.names.empty()) {
        fail("an argument without a name follows one with a name");
      }
      call.children.push_back(expression());
    }
  }

  Expression filtered(Expression out) {
    for (;; link()) {
      if (take_sign("|")) {
        auto next = node(E::kFilter, need_name());
        next.children.push_back(std::move(out));
        if (take_sign("(")) arguments(next);
        out = std::move(next);
      } else if (take_word("is")) {
        const bool negated = take_word("not");
        auto next = node(E::kTest, need_name());
        next.children.push_back(std::move(out));
        if (take_sign("("))
          arguments(next);
        else if (now().kind == Kind::kString || now().kind == Kind::kNumber)
          next.children.push_back(postfix(primary()));
        out = std::move(next);
        if (!negated) continue;
        auto opposite = node(E::kUnary, "not");
        opposite.children.push_back(std::move(out));
        out = std::move(opposite);
      } else {
        return out;
      }
    }
  }
};

}  // namespace

std::vector<Statement> parse(std::string_view source) { return Parser(tokens_of(source)).run(); }

}  // namespace hyperion::text::jinja
