// Regular expressions out of files and recipes, run by PCRE2 in a bounded number of steps where the build has it.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace hyperion::base {

class Expression {
 public:
  static constexpr size_t kLongest = 1 << 16;      // bytes
  enum class Reach { part_of_lines, whole_text };  // what it has to match; of lines "^" and "$" are the ends too
  using Met = std::function<bool(size_t begin, size_t end)>;  // whether to look for the next match

  // In PCRE2's syntax. Null where it is too long, not understood, or this build has no PCRE2: `problem` says which.
  static std::shared_ptr<const Expression> compile(const std::string& text, Reach reach, std::string& problem);

  virtual ~Expression() = default;
  virtual bool matches_nothing() const = 0;  // the empty text
  // The matches in a text of UTF-8, one after another. False where that takes more than so many steps.
  virtual bool find(std::string_view text, uint64_t steps, const Met& met) const = 0;
};

}  // namespace hyperion::base
