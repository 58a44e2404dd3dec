#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cctype>
#include <memory>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/data/expressions.h"

namespace hyperion::data {
namespace {

constexpr size_t kLongestExpression = 1 << 16;
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

struct Free {
  void operator()(pcre2_code* it) const { pcre2_code_free(it); }
  void operator()(pcre2_match_data* it) const { pcre2_match_data_free(it); }
  void operator()(pcre2_match_context* it) const { pcre2_match_context_free(it); }
  void operator()(pcre2_compile_context* it) const { pcre2_compile_context_free(it); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

// The expression is compiled to call back before each of its items: how far it moved since is the work that was done.
struct Work {
  uint64_t limit, done = 0;
  size_t last = 0;
};
int count_work(pcre2_callout_block* block, void* data) {
  auto& work = *static_cast<Work*>(data);
  const size_t now = block->current_position;
  work.done += 1 + (now > work.last ? now - work.last : work.last - now);
  work.last = now;
  return work.done > work.limit ? PCRE2_ERROR_MATCHLIMIT : 0;
}

Owned<pcre2_code> compile(const std::string& expression, const std::string& place) {
  if (expression.size() > kLongestExpression)
    unknown_component(place, base::format("a regular expression of {} bytes", expression.size()));
  const std::string meant = Translation(expression, place).run();
  const Owned<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
  HYPERION_CHECK(context != nullptr, "PCRE2 has memory for a context");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int number = 0;
  PCRE2_SIZE where = 0;
  const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_AUTO_CALLOUT | PCRE2_NO_START_OPTIMIZE;
  Owned<pcre2_code> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(meant.data()), meant.size(), options, &number, &where, context.get()));
  if (code == nullptr) {
    PCRE2_UCHAR message[200] = {};
    pcre2_get_error_message(number, message, sizeof message);
    unknown_component(place, base::format("the regular expression {} ({} at {})", expression,
                                          reinterpret_cast<const char*>(message), where));
  }
  uint32_t matches_nothing = 0;
  pcre2_pattern_info(code.get(), PCRE2_INFO_MATCHEMPTY, &matches_nothing);
  if (matches_nothing != 0)
    unknown_component(place, base::format("the regular expression {}, which matches even nothing", expression));
  return code;
}

std::vector<Stretch> find_all(const pcre2_code* code, std::string_view text, const std::string& expression) {
  const Owned<pcre2_match_data> data(pcre2_match_data_create_from_pattern(code, nullptr));
  const Owned<pcre2_match_context> context(pcre2_match_context_create(nullptr));
  HYPERION_CHECK(data != nullptr && context != nullptr, "PCRE2 has memory for a match");
  Work work{kStepsAtLeast + kStepsAByte * text.size()};
  pcre2_set_callout(context.get(), count_work, &work);
  pcre2_set_match_limit(context.get(), UINT32_MAX);
  std::vector<Stretch> out;
  size_t done = 0;
  for (;;) {
    work.last = done;
    const int found = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), done,
                                  PCRE2_NO_UTF_CHECK, data.get(), context.get());
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0)
      throw base::CorruptError(base::format("the regular expression {} takes more than {} steps a byte on a text of {}",
                                            expression, kStepsAByte, base::bytes_text(text.size())),
                               "cut the text into smaller ones, or use a tokenizer with a simpler expression");
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get());
    if (ends[0] > done) out.push_back({done, ends[0], false});
    if (ends[1] > ends[0]) out.push_back({ends[0], ends[1], true});
    done = ends[1];
  }
  if (done < text.size()) out.push_back({done, text.size(), false});
  return out;
}

}  // namespace

Finder find_expression(const std::string& expression, const std::string& place) {
  const std::shared_ptr<const pcre2_code> code = compile(expression, place);
  return [code, expression](std::string_view text) { return find_all(code.get(), text, expression); };
}

}  // namespace hyperion::data
