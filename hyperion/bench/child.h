// Another program, run to its end: what it prints comes line by line.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace hyperion::bench {

// `words`: the program (looked up in PATH) and its arguments. Its stdin is empty, its stderr is ours. Returns its exit
// code, 128 + signal where one ended it. Throws base::Error where it cannot be started, Interrupted when a stop was
// asked for, after ending it.
int run_child(const std::vector<std::string>& words, const std::function<void(std::string_view line)>& line);

}  // namespace hyperion::bench
