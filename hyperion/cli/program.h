// The whole program as a function, for a main that makes a model family of its own known first.
#pragma once

namespace hyperion::cli {

// Does not return: it leaves with the exit code.
[[noreturn]] void program(int argc, char** argv);

}  // namespace hyperion::cli
