// A regular expression of the paths of layers, as PEFT has them: Python's. Light: any file may include it.
#pragma once
#include <memory>
#include <string>

namespace hyperion::base {
class Expression;
}

namespace hyperion::nn {

class PathExpression {
 public:
  enum class Reach { whole, end };  // of a path; its end begins after any "."

  PathExpression() = default;  // none, which matches nothing
  // `place` says where it was written: "lora.targets". Throws ConfigError that names it for what is no expression, or
  // means something else to PCRE2 than to Python.
  PathExpression(const std::string& text, const std::string& place, Reach reach = Reach::whole);

  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }
  bool matches(const std::string& path) const;  // throws ConfigError where it takes too many steps

 private:
  std::string text_, place_;
  std::shared_ptr<const base::Expression> code_;
};

}  // namespace hyperion::nn
