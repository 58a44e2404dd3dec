// Renders a parsed template with variables.
#pragma once
#include "hyperion/text/byte_range.h"
#include "hyperion/text/jinja_tree.h"

namespace hyperion::text::jinja {

// `variables` is an object. Throws Fault with the line it happened in. `now`: seconds since 1970 UTC, for strftime_now.
// `generated`, where given, is told the bytes that each {% generation %} block wrote.
std::string render(const std::vector<Statement>& tree, const Value& variables, int64_t now,
                   std::vector<ByteRange>* generated = nullptr);

bool has_generation_blocks(const std::vector<Statement>& tree);

// Whether a template names a variable, an attribute or a key so; else it can only be written along with what it is in.
bool names(const std::vector<Statement>& tree, std::string_view word);

}  // namespace hyperion::text::jinja
