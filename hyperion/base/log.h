// The log: short lines for people on stderr, the same as JSON lines in the run's logs/rank-N.log. Safe from any thread.
#pragma once
#include <string>
#include <string_view>

#include "hyperion/base/files.h"

namespace hyperion::base {

enum class LogLevel { debug, info, warn, error };

struct LogOptions {
  LogLevel level = LogLevel::info;  // of what people see; the file takes everything
  int rank = 0;                     // shown where it is not 0
};
void configure_log(const LogOptions& options);
// Also writes every line to `path`, as JSON: {"time", "level", "rank", "step", "message"}. An empty path stops that.
void log_to_file(const Path& path);

void log(LogLevel level, std::string_view message);
inline void log_debug(std::string_view message) { log(LogLevel::debug, message); }
inline void log_info(std::string_view message) { log(LogLevel::info, message); }
inline void log_warn(std::string_view message) { log(LogLevel::warn, message); }
// For people alone, in the same stream: step lines, tables, answers. The file has no need of them.
void print_lines(std::string_view text);  // ends the last one where the text does not

// Whether a stream (1 or 2) is a terminal that may be colored: NO_COLOR and TERM=dumb say no.
bool is_terminal(int descriptor);
bool use_color(int descriptor);

// One line that is redrawn in place on a terminal. Elsewhere it stays silent: the caller prints a plain line now and
// then. Log lines pass above it. One at a time.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // leaves the last state on the screen
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  bool live() const { return live_; }
  void show(std::string_view text);  // cut to the terminal's width
  void clear();

 private:
  bool live_;
};

}  // namespace hyperion::base
