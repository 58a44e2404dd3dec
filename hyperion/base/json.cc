#include "hyperion/base/json.h"

#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::base {

Json parse_json(std::string_view text, const std::string& place) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw CorruptError(format("{} is not JSON (byte {})", place, error.byte));
  } catch (const Json::out_of_range&) {
    throw CorruptError(format("{} is not JSON that can be read: a number is too large", place));
  }
}

}  // namespace hyperion::base
