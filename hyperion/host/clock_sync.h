// Whether the wall clock of this machine is held right by a time service.
#pragma once
#include <optional>

namespace hyperion::host {

// Nothing where the kernel does not let us ask.
std::optional<bool> clock_synchronized();

}  // namespace hyperion::host
