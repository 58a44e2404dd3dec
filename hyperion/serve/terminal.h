// Lines that a person types on a terminal.
#pragma once
#include <optional>
#include <string>

#include "hyperion/serve/line_editor.h"

namespace hyperion::serve {

// Whether both ends are a terminal that understands where the cursor is put.
bool can_edit_lines();

// The next line, edited in place; nothing once there is no more. The terminal is as it was before whenever this returns
// or throws. Throws Interrupted on a request to stop.
std::optional<std::string> read_line(LineEditor& editor, const std::string& prompt);

}  // namespace hyperion::serve
