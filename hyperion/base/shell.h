// Words for a shell.
#pragma once
#include <string>

namespace hyperion::base {

std::string shell_quoted(const std::string& word);  // a word that a shell takes as it is

}  // namespace hyperion::base
