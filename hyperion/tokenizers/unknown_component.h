// An error for a component of a tokenizer.json that is not known here, named.
#pragma once
#include <string>

namespace hyperion::tokenizers {

[[noreturn]] void unknown_component(const std::string& place, const std::string& what);

}  // namespace hyperion::tokenizers
