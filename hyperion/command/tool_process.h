// Another program with all that it starts, run to its end, to a limit of time, or until a stop is asked for.
#pragma once
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/resilience/guardian.h"

namespace hyperion::cli {

struct ToolCall {
  std::vector<std::string> words;        // the program's path and its arguments
  std::vector<std::string> environment;  // NAME=VALUE, on top of this process's own
  base::Path log;                        // what it prints is added to it
  base::Path output;                     // where given, its standard output alone
  double limit = 600;                    // seconds
};

struct ToolEnd {
  int code = 0;  // 128 + signal where one ended it
  bool too_long = false;
  double seconds = 0;
  bool well() const { return code == 0 && !too_long; }
};

// It reads nothing, leads a process group of its own, and the group ends with it. At the limit, and when a stop is
// asked for, the group has SIGTERM and kGraceSeconds, then SIGKILL. Throws Interrupted after a stop, base::Error where
// it cannot be started. The guardian ends the group where this process itself is killed.
constexpr double kGraceSeconds = 5;
ToolEnd run_tool(const ToolCall& call, resilience::Guardian& guardian);

// As a shell would take it: "LD_LIBRARY_PATH=/x nsys profile ..."
std::string command_text(const ToolCall& call);

}  // namespace hyperion::cli
