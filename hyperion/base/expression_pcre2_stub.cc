#include "hyperion/base/expression.h"

namespace hyperion::base {

std::shared_ptr<const Expression> Expression::compile(const std::string&, Reach, std::string& problem) {
  problem = "this build has no PCRE2: install libpcre2-dev, as script/setup does, and build again";
  return nullptr;
}

}  // namespace hyperion::base
