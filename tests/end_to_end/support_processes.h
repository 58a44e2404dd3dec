// The processes of a job that a test started, known by a variable in their environment.
#pragma once
#include <cctype>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/end_to_end/support_program.h"

namespace hyperion::testing {

inline std::vector<int> processes_with(const std::string& text) {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (std::isdigit(static_cast<unsigned char>(name[0])) != 0 &&
        read_file(entry.path() / "environ").find(text) != std::string::npos)
      found.push_back(std::stoi(name));
  }
  return found;
}

// Whether none is left; those that were killed a moment ago are given one.
inline bool no_process_with(const std::string& text) {
  for (int i = 0; i < 300 && !processes_with(text).empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return processes_with(text).empty();
}

}  // namespace hyperion::testing
