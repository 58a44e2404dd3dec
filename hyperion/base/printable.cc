#include "hyperion/base/printable.h"

#include "hyperion/base/format.h"

namespace hyperion::base {

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {
      out += format("\\x{:02x}", next);
      ++i;
    } else if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f) {
      out += format("\\x{:02x}", byte);
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string printable_line(std::string_view text) {
  std::string line;
  for (const char c : printable(text)) line += c == '\n' ? "\\n" : c == '\t' ? "\\t" : std::string(1, c);
  return line;
}

}  // namespace hyperion::base
