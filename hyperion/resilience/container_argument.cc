#include "hyperion/resilience/container_argument.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::resilience {
namespace {

// Kubernetes makes $$ a $, and leaves alone a $ before anything but $ and (.
std::string with_doubled_dollars(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t end = std::min(text.find_first_not_of('$', i), text.size());
    const bool heeded = end - i > 1 || (end - i == 1 && end < text.size() && text[end] == '(');
    out.append((heeded ? 2 : 1) * (end - i), '$');
    if (end < text.size()) out += text[end];
    i = end + 1;
  }
  return out;
}

// What JSON lets stand and YAML does not: DEL, the controls from U+0080 to U+009F (U+0085 ends a line), the ends of
// lines U+2028 and U+2029, and U+FEFF, U+FFFE and U+FFFF.
std::string yaml_escape(std::string_view rest) {
  const auto byte = [&](size_t i) { return i < rest.size() ? static_cast<unsigned char>(rest[i]) : 0u; };
  if (byte(0) == 0x7f) return "\\u007f";
  if (byte(0) == 0xc2 && byte(1) < 0xa0) return base::format("\\u{:04x}", byte(1));
  if (byte(0) < 0xe0 || byte(0) > 0xef) return {};
  const unsigned character = (byte(0) & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
  const bool escaped = character == 0x2028 || character == 0x2029 || character == 0xfeff || character >= 0xfffe;
  return escaped ? base::format("\\u{:04x}", character) : "";
}

size_t utf8_width(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

}  // namespace

std::string container_argument(const std::string& text) {
  std::string quoted;
  try {
    quoted = nlohmann::json(with_doubled_dollars(text)).dump();
  } catch (const nlohmann::json::exception&) {
    throw base::ConfigError("a word after -- is not UTF-8, and a manifest holds nothing else",
                            "give that file another name, or name it in a recipe");
  }
  std::string out;
  for (size_t i = 0; i < quoted.size(); i += utf8_width(quoted[i])) {
    const std::string escape = yaml_escape(std::string_view(quoted).substr(i));
    out += escape.empty() ? quoted.substr(i, utf8_width(quoted[i])) : escape;
  }
  return out;
}

}  // namespace hyperion::resilience
