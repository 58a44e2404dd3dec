#include "hyperion/trace/json_scan.h"

namespace hyperion::trace {

std::string_view take_value(const char*& at, const char* end) {
  const char* begin = at;
  int depth = 0;
  do {
    if (at >= end) throw ScanFault{end, "a value does not end"};
    switch (*at) {
      case '"':
        at = string_end(at + 1, end) + 1;
        break;
      case '{':
      case '[':
        if (++depth > kDeepest) throw ScanFault{at, "it nests more than 200 deep"};
        ++at;
        break;
      case '}':
      case ']':
        if (depth == 0) throw ScanFault{at, "a value is missing"};
        --depth;
        ++at;
        break;
      case ',':
      case ':':
      case ' ':
      case '\n':
      case '\r':
      case '\t':
        if (depth == 0) throw ScanFault{at, "a value is missing"};
        ++at;
        break;
      default: {
        const char* word = at;
        while (at < end && *at != ',' && *at != '}' && *at != ']' && *at != ':' && *at != '"' && !is_json_space(*at) &&
               *at != '{' && *at != '[')
          ++at;
        if (at >= end) throw ScanFault{end, "a value does not end"};
        if (at == word) throw ScanFault{at, "no value begins so"};
      }
    }
  } while (depth > 0);
  return {begin, static_cast<size_t>(at - begin)};
}

}  // namespace hyperion::trace
