#include "hyperion/serve/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "hyperion/base/printable.h"
#include "hyperion/base/signals.h"

namespace hyperion::serve {
namespace {

constexpr int kLookMilliseconds = 200;  // a signal may have come just before the wait

// Bytes as they are typed, without an echo. Ctrl-C stays a signal; nothing else may leave while the line is edited.
class KeyByKey {
 public:
  KeyByKey() {
    if (::tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios now = before_;
    now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);
    now.c_iflag &= ~static_cast<tcflag_t>(IXON);
    now.c_cc[VMIN] = 1, now.c_cc[VTIME] = 0;
    now.c_cc[VSUSP] = now.c_cc[VQUIT] = _POSIX_VDISABLE;
    changed_ = ::tcsetattr(STDIN_FILENO, TCSADRAIN, &now) == 0;
  }
  ~KeyByKey() {
    if (changed_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }
  KeyByKey(const KeyByKey&) = delete;
  KeyByKey& operator=(const KeyByKey&) = delete;

 private:
  termios before_{};
  bool changed_ = false;
};

size_t terminal_width() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void show_on_terminal(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

bool can_edit_lines() {
  const char* kind = std::getenv("TERM");
  return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1 && kind != nullptr &&
         std::string_view(kind) != "dumb";
}

void write_text(std::string_view text) {
  static const bool on_terminal = ::isatty(STDOUT_FILENO) == 1;
  if (!on_terminal) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  const std::string shown = base::printable(text);
  std::fwrite(shown.data(), 1, shown.size(), stdout);
}

std::optional<std::string> read_line(LineEditor& editor, const std::string& prompt) {
  const KeyByKey keys;
  editor.begin();
  show_on_terminal(editor.drawn(prompt, terminal_width()));
  for (;;) {
    pollfd waiting{STDIN_FILENO, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, kLookMilliseconds);
    base::throw_if_stopped("waiting for a line");
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    char byte = 0;
    const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
    const auto state = got == 1 ? editor.take(byte) : LineEditor::State::ended;
    if (editor.wants_clear_screen()) show_on_terminal("\x1b[H\x1b[2J");
    show_on_terminal(editor.drawn(prompt, terminal_width()));
    if (state == LineEditor::State::typing) continue;
    show_on_terminal("\n");
    if (state == LineEditor::State::ended) return std::nullopt;
    return editor.text();
  }
}

}  // namespace hyperion::serve
