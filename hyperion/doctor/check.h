// One line of the doctor's table.
#pragma once
#include <string>

namespace hyperion::doctor {

enum class Verdict { ok, warn, fail };  // fail: training here would stop

struct Check {
  std::string name, group;
  Verdict verdict = Verdict::ok;
  std::string finding;  // what was found, with units
  std::string hint;     // what to do; empty only where the verdict is ok
};

inline constexpr const char* kMachineGroup = "machine";
inline constexpr const char* kGpuGroup = "gpu";
inline constexpr const char* kLibraryGroup = "libraries";
inline constexpr const char* kJobGroup = "job";
inline constexpr const char* kToolGroup = "tools";

}  // namespace hyperion::doctor
