// Text made safe for HTML and SVG.
#pragma once
#include <string>
#include <string_view>

namespace hyperion::report {

// Fit for element content and quoted attributes: & < > " ' become entities, control characters XML forbids and bytes
// that are not UTF-8 become U+FFFD.
std::string escaped(std::string_view text);

size_t characters(std::string_view utf8);  // code points
// At most `most` characters, the last an ellipsis where something was cut.
std::string shortened(std::string_view utf8, size_t most);

}  // namespace hyperion::report
