#include "hyperion/base/log.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"

namespace hyperion::base {
namespace {

struct Sink {
  std::mutex mutex;
  LogOptions options;
  std::unique_ptr<WritableFile> file;
  std::string progress;  // what the progress line shows now
};
Sink& sink() {
  static Sink instance;
  return instance;
}

const char* name(LogLevel level) {
  const char* names[] = {"debug", "info", "warn", "error"};
  return names[static_cast<int>(level)];
}

void to_terminal(LogLevel level, std::string_view message, const Sink& state) {
  const char* colors[] = {"\033[2m", "", "\033[33m", "\033[31m"};
  const bool colored = use_color(STDERR_FILENO);
  std::string line;
  if (!state.progress.empty()) line += "\r\033[K";
  if (colored) line += colors[static_cast<int>(level)];
  if (state.options.rank != 0) line += format("[rank {}] ", state.options.rank);
  if (level != LogLevel::info) line += format("{}: ", name(level));
  line += message;
  if (colored) line += "\033[0m";
  line += "\n" + state.progress;
  std::fputs(line.c_str(), stderr);
}

void to_file(LogLevel level, std::string_view message, Sink& state) {
  Json record = {{"time", utc_text(real_clock().unix_seconds())},
                 {"level", name(level)},
                 {"rank", state.options.rank},
                 {"message", message}};
  if (current_activity().step >= 0) record["step"] = current_activity().step;
  try {
    state.file->append(record.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  } catch (const FileError& error) {
    state.file.reset();  // first, so that this line does not come back here
    to_terminal(LogLevel::warn, format("the log file is given up: {}", error.what()), state);
  }
}

// At most `columns` characters of UTF-8, none of them halved.
std::string_view cut(std::string_view text, size_t columns) {
  size_t bytes = 0;
  for (; bytes < text.size(); ++bytes)
    if ((text[bytes] & 0xC0) != 0x80 && columns-- == 0) break;
  return text.substr(0, bytes);
}

}  // namespace

void configure_log(const LogOptions& options) {
  std::lock_guard lock(sink().mutex);
  sink().options = options;
}

void log_to_file(const Path& path) {
  auto file = path.empty() ? nullptr : real_files().open_append(path);
  std::lock_guard lock(sink().mutex);
  sink().file = std::move(file);
}

void log(LogLevel level, std::string_view message) {
  Sink& state = sink();
  std::lock_guard lock(state.mutex);
  if (level >= state.options.level) to_terminal(level, message, state);
  if (state.file) to_file(level, message, state);
}

void print_lines(std::string_view text) {
  Sink& state = sink();
  std::lock_guard lock(state.mutex);
  const std::string above = state.progress.empty() ? "" : "\r\033[K";
  std::fputs(format("{}{}{}{}", above, text, text.ends_with('\n') ? "" : "\n", state.progress).c_str(), stderr);
}

bool is_terminal(int descriptor) { return ::isatty(descriptor) == 1; }

bool use_color(int descriptor) {
  const char *terminal = std::getenv("TERM"), *no_color = std::getenv("NO_COLOR");
  return is_terminal(descriptor) && (no_color == nullptr || *no_color == '\0') &&
         (terminal == nullptr || std::string_view(terminal) != "dumb");
}

ProgressLine::ProgressLine() : live_(is_terminal(STDERR_FILENO)) {}
ProgressLine::~ProgressLine() {
  std::lock_guard lock(sink().mutex);
  if (!sink().progress.empty()) std::fputs("\n", stderr);
  sink().progress.clear();
}

void ProgressLine::show(std::string_view text) {
  if (!live_) return;
  winsize window{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1) text = cut(text, window.ws_col - 1);
  std::lock_guard lock(sink().mutex);
  sink().progress = text;
  std::fprintf(stderr, "\r\033[K%s", sink().progress.c_str());
  std::fflush(stderr);
}

void ProgressLine::clear() {
  std::lock_guard lock(sink().mutex);
  if (!sink().progress.empty()) std::fputs("\r\033[K", stderr);
  sink().progress.clear();
}

}  // namespace hyperion::base
