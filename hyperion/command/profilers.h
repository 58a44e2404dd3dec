// The profilers that `hyperion profile all` knows: how each is started over some work, and where it is to be had.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "hyperion/command/tool_process.h"

namespace hyperion::cli {

enum class ProfilerTool { hyperion, nsys, ncu, rocprofv3, rocprof_sys, rocprof_compute };
constexpr auto words_of(ProfilerTool) {
  return std::array{"hyperion", "nsys", "ncu", "rocprofv3", "rocprof-sys", "rocprof-compute"};
}

// A canonical workload, or a recipe where the name ends in .toml, for a few steps.
struct ShortWork {
  std::string name, device = "auto", optimize;
  std::vector<std::string> settings;  // further flags of `train`, of a recipe
  int64_t steps = 10;
  bool is_recipe() const { return name.ends_with(".toml"); }
};

// One after the other; each in the tool's own folder, with its log. `program`: where it lies; empty for our own.
std::vector<ToolCall> calls_of(ProfilerTool tool, const base::Path& program, const base::Path& folder,
                               const ShortWork& work);

// The programs that are it, the first that is there.
std::vector<std::string> programs_of(ProfilerTool tool);
std::string how_to_get(ProfilerTool tool);

// The first of the kind 2024.5.1 in what a program says of its version; empty: none.
std::string version_in(std::string_view text);

}  // namespace hyperion::cli
