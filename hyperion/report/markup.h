// Text made safe for HTML and SVG.
#pragma once
#include <string>
#include <string_view>

namespace hyperion::report {

// Fit for element content and quoted attributes: & < > " ' become entities, control characters XML forbids and bytes
// that are not UTF-8 become U+FFFD.
std::string escaped(std::string_view text);

// A <text> with these attributes, and the <svg> around such elements.
std::string svg_text(double x, double y, const std::string& attributes, std::string_view content);
std::string svg_element(int width, double height, const std::string& body);

size_t characters(std::string_view utf8);  // code points
// At most `most` characters, the last an ellipsis where something was cut.
std::string shortened(std::string_view utf8, size_t most);

}  // namespace hyperion::report
