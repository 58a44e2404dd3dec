// Renders a parsed template with variables.
#pragma once
#include "hyperion/data/jinja_tree.h"

namespace hyperion::data::jinja {

// `variables` is an object. Throws Fault with the line it happened in. `now`: seconds since 1970 UTC, for strftime_now.
std::string render(const std::vector<Statement>& tree, const Value& variables, int64_t now);

}  // namespace hyperion::data::jinja
