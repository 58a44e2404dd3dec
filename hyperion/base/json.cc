#include "hyperion/base/json.h"

#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::base {

namespace {

constexpr size_t kMaxDepth = 200;

// Of objects and arrays; reads no further than one too many.
bool nests_too_deep(std::string_view text) {
  size_t depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& place) {
  if (nests_too_deep(text)) throw CorruptError(format("{} nests more than {} deep", place, kMaxDepth));
  if (text.find_first_not_of(" \t\r\n") == text.npos) throw CorruptError(format("{} is not JSON: it is empty", place));
  // The library takes a byte of zero for the end.
  if (const size_t zero = text.find('\0'); zero != text.npos)
    throw CorruptError(format("{} is not JSON (byte {})", place, zero + 1));
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw CorruptError(format("{} is not JSON (byte {})", place, error.byte));
  } catch (const Json::out_of_range&) {
    throw CorruptError(format("{} is not JSON that can be read: a number is too large", place));
  }
}

}  // namespace hyperion::base
