#include "hyperion/base/signals.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <string_view>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::base {
namespace {
std::atomic<int> asked{0}, interrupts{0};
static_assert(std::atomic<int>::is_always_lock_free);

void note(int signal) {
  const int before = errno;
  if (signal == SIGINT && interrupts.fetch_add(1) > 0) ::_exit(128 + SIGINT);
  constexpr std::string_view kSaid = "\nstopping as soon as that is safe; Ctrl-C again stops at once\n";
  if (signal == SIGINT && ::isatty(STDERR_FILENO) == 1) (void)!::write(STDERR_FILENO, kSaid.data(), kSaid.size());
  int nobody = 0;
  asked.compare_exchange_strong(nobody, signal);
  errno = before;
}
}  // namespace

void watch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = note;
  for (int signal : {SIGINT, SIGTERM, SIGUSR1}) ::sigaction(signal, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // a file grown to its limit is then an error of the write
}

int stop_signal() { return asked.load(); }

int stop_exit_code(int signal) { return signal == SIGINT ? 128 + SIGINT : 75; }

void throw_if_stopped(const char* doing) {
  if (const int signal = stop_signal()) throw Interrupted(format("stopped while {}", doing), 128 + signal);
}

}  // namespace hyperion::base
