// Regular expressions that no scanner is written for, run by PCRE2 where the build has it.
#pragma once
#include <string>

#include "hyperion/tokenizers/finder.h"

namespace hyperion::tokenizers {

// `expression` as tokenizer.json has it: Oniguruma's, with Ruby's syntax. Throws CorruptError that names `place` for
// what PCRE2 would understand otherwise, does not understand, or would match with nothing. The finder throws
// CorruptError for a text that takes more steps than a fixed number a byte.
Finder find_expression(const std::string& expression, const std::string& place);

}  // namespace hyperion::tokenizers
