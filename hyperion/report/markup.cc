#include "hyperion/report/markup.h"

#include "hyperion/base/format.h"

namespace hyperion::report {
namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Length of the well-formed UTF-8 sequence at the start of `text`, 0 where there is none.
size_t sequence_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xC2 && lead < 0xE0 ? 2
                        : (lead & 0xF0) == 0xE0       ? 3
                        : lead >= 0xF0 && lead < 0xF5 ? 4
                                                      : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (!is_continuation(text[i])) return 0;
  }
  if (length == 1) return 1;
  const auto second = static_cast<unsigned char>(text[1]);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool outside = (lead == 0xED && second >= 0xA0) || (lead == 0xF4 && second >= 0x90);
  const bool noncharacter = lead == 0xEF && second == 0xBF && static_cast<unsigned char>(text[2]) >= 0xBE;
  return overlong || outside || noncharacter ? 0 : length;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  while (!text.empty()) {
    const size_t length = sequence_length(text);
    const char c = text[0];
    const bool forbidden = static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' && c != '\r';
    if (length == 0 || forbidden || c == 0x7F)
      out += "\uFFFD";
    else if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else
      out += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::string svg_text(double x, double y, const std::string& attributes, std::string_view content) {
  return base::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes, escaped(content));
}

std::string svg_element(int width, double height, const std::string& body) {
  return base::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1:.0f}\" width=\"{0}\" height=\"{1:.0f}\" "
             "fill=\"currentColor\" font-family=\"system-ui,sans-serif\" font-size=\"12\">\n",
             width, height) +
         body + "</svg>\n";
}

size_t characters(std::string_view utf8) {
  size_t count = 0;
  for (char byte : utf8) count += !is_continuation(byte);
  return count;
}

std::string shortened(std::string_view utf8, size_t most) {
  if (characters(utf8) <= most) return std::string(utf8);
  if (most == 0) return {};
  size_t end = 0;
  for (size_t kept = 0; end < utf8.size(); ++end) {
    if (!is_continuation(utf8[end]) && ++kept == most) break;
  }
  return std::string(utf8.substr(0, end)) + "…";
}

}  // namespace hyperion::report
