#include "hyperion/tokenizers/expressions.h"

#include <cctype>
#include <memory>

#include "hyperion/base/error.h"
#include "hyperion/base/expression.h"
#include "hyperion/base/format.h"
#include "hyperion/tokenizers/unknown_component.h"

namespace hyperion::tokenizers {
namespace {

constexpr uint64_t kStepsAByte = 300, kStepsAtLeast = 1'000'000;
// \w of Oniguruma; PCRE2's leaves out marks and has more numbers.
constexpr std::string_view kWordChars = R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\xB2\xB3\xB9\xBC-\xBE\x{24B6}-\x{24E9})"
                                        R"(\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";

// The same expression in PCRE2's syntax.
class Translation {
 public:
  Translation(std::string_view from, const std::string& place) : from_(from), place_(place) {}

  std::string run() {
    while (at_ < from_.size()) {
      const char byte = from_[at_];
      if (byte == '\\')
        escape();
      else if (in_class_)
        in_class();
      else if (byte == '[')
        open_class();
      else if (byte == '(')
        group();
      else
        plain();
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    unknown_component(place_, base::format("\"{}\" in the regular expression {}", what, from_));
  }
  std::string_view ahead(size_t count) const { return from_.substr(at_, count); }
  void copy(size_t count) {
    out_ += ahead(count);
    at_ += count;
  }

  void plain() {
    // "{,3}" and "{1,3}+" mean something else to Ruby.
    if (ahead(2) == "{," || ahead(2) == "}+") refuse(ahead(2));
    copy(1);
  }

  void open_class() {
    in_class_ = true;
    copy(ahead(2) == "[^" ? 2 : 1);
    if (ahead(1) == "]") refuse("[]");
  }

  void in_class() {
    if (from_[at_] == '[' || ahead(2) == "&&") refuse(ahead(2));  // a class in a class, or what two classes share
    if (from_[at_] == ']') in_class_ = false;
    copy(1);
  }

  void group() {
    if (ahead(2) == "(*") refuse("(*");
    if (ahead(2) != "(?") return copy(1);
    for (const std::string_view known : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?i)", "(?-i:", "(?-i)"})
      if (ahead(known.size()) == known) return copy(known.size());
    refuse(ahead(4));
  }

  void escape() {
    const char kind = at_ + 1 < from_.size() ? from_[at_ + 1] : '\0';
    const auto byte = static_cast<unsigned char>(kind);
    if (kind == 'p' || kind == 'P') return property();
    if (kind == 'w' || (kind == 'W' && !in_class_)) {
      out_ += in_class_ ? std::string(kWordChars) : base::format("[{}{}]", kind == 'W' ? "^" : "", kWordChars);
      at_ += 2;
    } else if (kind == 'u' && at_ + 6 <= from_.size()) {
      out_ += base::format("\\x{{{}}}", from_.substr(at_ + 2, 4));
      at_ += 6;
    } else if (std::string_view("sSdDrntfx").find(kind) != std::string_view::npos ||
               (!in_class_ && (kind == 'A' || kind == 'z')) || (byte < 0x80 && std::ispunct(byte) != 0) ||
               kind == ' ') {
      copy(2);
    } else {
      refuse(ahead(2));
    }
  }

  // Names of one or two letters are categories; longer ones scripts, without what other scripts use too.
  void property() {
    const size_t end = from_.find('}', at_);
    if (ahead(3).back() != '{' || end == std::string_view::npos) refuse(ahead(4));
    std::string_view name = from_.substr(at_ + 3, end - at_ - 3);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    out_ += base::format("{}{{{}{}{}}}", ahead(2), negated ? "^" : "", name.size() > 2 ? "sc:" : "", name);
    at_ = end + 1;
  }

  std::string_view from_;
  const std::string& place_;
  std::string out_;
  size_t at_ = 0;
  bool in_class_ = false;
};

std::shared_ptr<const base::Expression> compile(const std::string& expression, const std::string& place) {
  if (expression.size() > base::Expression::kLongest)
    unknown_component(place, base::format("a regular expression of {} bytes", expression.size()));
  std::string problem;
  const auto code =
      base::Expression::compile(Translation(expression, place).run(), base::Expression::Reach::part_of_lines, problem);
  if (code == nullptr) unknown_component(place, base::format("the regular expression {} ({})", expression, problem));
  if (code->matches_nothing())
    unknown_component(place, base::format("the regular expression {}, which matches even nothing", expression));
  return code;
}

std::vector<Stretch> find_all(const base::Expression& code, std::string_view text, const std::string& expression) {
  std::vector<Stretch> out;
  size_t done = 0;
  const bool ended = code.find(text, kStepsAtLeast + kStepsAByte * text.size(), [&](size_t begin, size_t end) {
    if (begin > done) out.push_back({done, begin, false});
    if (end > begin) out.push_back({begin, end, true});
    done = end;
    return true;
  });
  if (!ended)
    throw base::CorruptError(base::format("the regular expression {} takes more than {} steps a byte on a text of {}",
                                          expression, kStepsAByte, base::bytes_text(text.size())),
                             "cut the text into smaller ones, or use a tokenizer with a simpler expression");
  if (done < text.size()) out.push_back({done, text.size(), false});
  return out;
}

}  // namespace

Finder find_expression(const std::string& expression, const std::string& place) {
  return [code = compile(expression, place), expression](std::string_view text) {
    return find_all(*code, text, expression);
  };
}

}  // namespace hyperion::tokenizers
