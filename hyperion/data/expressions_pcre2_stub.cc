#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/data/expressions.h"

namespace hyperion::data {

Finder find_expression(const std::string& expression, const std::string& place) {
  throw base::CorruptError(
      base::format("{}: the regular expression {} is not known here, and this build has no PCRE2", place, expression),
      "install libpcre2-dev (script/setup does) and build again");
}

}  // namespace hyperion::data
