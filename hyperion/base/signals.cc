#include "hyperion/base/signals.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <string_view>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::base {
namespace {
std::atomic<int> asked{0}, interrupts{0};
std::atomic<int64_t> told_to_end{0};  // when the first SIGTERM or SIGHUP came, in milliseconds
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);
constexpr int64_t kSameRequest = 500;  // milliseconds

void say_in_handler(std::string_view text) { (void)!::write(STDERR_FILENO, text.data(), text.size()); }

int64_t monotonic_milliseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

bool is_impatient(int signal) {
  if (signal == SIGINT) return interrupts.fetch_add(1) > 0;
  if (signal != SIGTERM && signal != SIGHUP) return false;
  const int64_t now = monotonic_milliseconds();
  int64_t first = 0;
  return !told_to_end.compare_exchange_strong(first, now) && now - first >= kSameRequest;
}

void note(int signal) {
  const int before = errno;
  if (is_impatient(signal)) ::_exit(128 + signal);
  int nobody = 0;
  const bool first = asked.compare_exchange_strong(nobody, signal);
  if (signal == SIGINT && ::isatty(STDERR_FILENO) == 1)
    say_in_handler("\nstopping as soon as that is safe; Ctrl-C again stops at once\n");
  else if (signal == SIGTERM && first)
    say_in_handler("SIGTERM: stopping as soon as that is safe; another stops at once\n");
  errno = before;
}
}  // namespace

void watch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = note;
  for (int signal : {SIGINT, SIGTERM, SIGUSR1, SIGXCPU}) ::sigaction(signal, &action, nullptr);
  struct sigaction hangup {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // a file grown to its limit is then an error of the write
}

int stop_signal() { return asked.load(); }

bool forget_interrupt() {
  int pressed = SIGINT;
  if (told_to_end != 0 || !asked.compare_exchange_strong(pressed, 0)) return false;
  interrupts = 0;
  return true;
}

int stop_exit_code(int signal) { return signal == SIGINT ? 128 + SIGINT : 75; }

void throw_if_stopped(const char* doing) {
  if (const int signal = stop_signal()) throw Interrupted(format("stopped while {}", doing), 128 + signal);
}

}  // namespace hyperion::base
