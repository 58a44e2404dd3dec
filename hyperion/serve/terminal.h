// Lines that a person types on a terminal, and texts that are shown there.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "hyperion/serve/line_editor.h"

namespace hyperion::serve {

// Whether both ends are a terminal that understands where the cursor is put.
bool can_edit_lines();

// Writes what a model or a user said to standard output: as it is to a file or a pipe, fit for a terminal to one.
void write_text(std::string_view text);

// The next line, edited in place; nothing once there is no more. The terminal is as it was before whenever this returns
// or throws. Throws Interrupted on a request to stop.
std::optional<std::string> read_line(LineEditor& editor, const std::string& prompt);

}  // namespace hyperion::serve
