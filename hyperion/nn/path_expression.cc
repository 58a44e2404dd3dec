#include "hyperion/nn/path_expression.h"

#include <cctype>
#include <string_view>

#include "hyperion/base/error.h"
#include "hyperion/base/expression.h"
#include "hyperion/base/format.h"

namespace hyperion::nn {
namespace {

using base::format;

constexpr uint64_t kStepsAPath = 1'000'000;
constexpr const char* kNameThem = "name the layers in a list instead, or write a simpler expression";

std::string shown_expression(const std::string& text) {
  constexpr size_t kShown = 60;
  return text.size() <= kShown ? text : format("{}... ({} bytes)", text.substr(0, kShown), text.size());
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> heads) {
  for (const auto head : heads)
    if (text.starts_with(head)) return true;
  return false;
}

// What PCRE2 understands otherwise than Python's re, or re not at all, from the start of `rest`; else empty.
std::string_view foreign_part(std::string_view rest, bool in_class) {
  const auto next = static_cast<unsigned char>(rest.size() > 1 ? rest[1] : '\0');
  if (rest[0] == '\\') {
    const bool known = std::string_view("bdDsSwWnrtf").find(static_cast<char>(next)) != std::string_view::npos ||
                       (!in_class && (next == 'A' || next == 'B' || next == 'Z' || (next >= '1' && next <= '9')));
    return known || (std::isalnum(next) == 0 && next != '\0') ? "" : rest.substr(0, 2);
  }
  if (in_class) return starts_with_any(rest, {"[:", "[.", "[="}) ? rest.substr(0, 2) : "";
  if (starts_with_any(rest, {"{,", "(*"})) return rest.substr(0, 2);
  const bool known = !rest.starts_with("(?") || starts_with_any(rest, {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>",
                                                                       "(?P<", "(?P=", "(?i)", "(?i:", "(?-i:"});
  return known ? "" : rest.substr(0, 4);
}

std::string_view find_foreign_part(std::string_view text) {
  size_t class_begin = 0;  // its first sign, which may be "]" itself
  bool in_class = false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (const auto part = foreign_part(text.substr(at), in_class); !part.empty()) return part;
    if (text[at] == '\\') {
      ++at;
    } else if (in_class) {
      in_class = text[at] != ']' || at == class_begin;
    } else if (text[at] == '[') {
      in_class = true;
      if (text.substr(at + 1).starts_with('^')) ++at;
      class_begin = at + 1;
    }
  }
  return {};
}

}  // namespace

PathExpression::PathExpression(const std::string& text, const std::string& place, Reach reach)
    : text_(text), place_(place) {
  if (text.empty()) return;
  const auto refuse = [&](const std::string& why) {
    throw base::ConfigError(
        format("{}: \"{}\" is not a regular expression that can be read here: {}", place, shown_expression(text), why),
        kNameThem);
  };
  if (const auto part = find_foreign_part(text); !part.empty()) refuse(format("it has {}", part));
  std::string problem;
  code_ = base::Expression::compile(reach == Reach::whole ? text : format("(.*\\.)?({})", text),
                                    base::Expression::Reach::whole_text, problem);
  if (code_ == nullptr) refuse(problem);
}

bool PathExpression::matches(const std::string& path) const {
  if (code_ == nullptr) return false;
  bool found = false;
  const auto met = [&](size_t, size_t) {
    found = true;
    return false;
  };
  if (!code_->find(path, kStepsAPath, met))
    throw base::ConfigError(format("{}: the regular expression \"{}\" takes more than {} steps on the layer {}", place_,
                                   shown_expression(text_), kStepsAPath, path),
                            kNameThem);
  return found;
}

}  // namespace hyperion::nn
