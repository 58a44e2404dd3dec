// Texts of others on a terminal: a model, a template or a file may say what a terminal would obey.
#pragma once
#include <string>
#include <string_view>

namespace hyperion::base {

// Control characters escaped, as "\x1b", those of two bytes in UTF-8 too; line ends and tabs stay.
std::string printable(std::string_view text);
// The same on one line: line ends and tabs are escaped too, as "\n" and "\t".
std::string printable_line(std::string_view text);

}  // namespace hyperion::base
