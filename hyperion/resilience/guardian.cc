#include "hyperion/resilience/guardian.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <set>

namespace hyperion::resilience {
namespace {

// Until the launcher's end of the pipe closes; a negative number takes a group off the list.
[[noreturn]] void stand_guard(int pipe) {
  std::set<pid_t> groups;
  pid_t group = 0;
  for (;;) {
    const ssize_t got = ::read(pipe, &group, sizeof group);
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof group) break;
    if (group > 0)
      groups.insert(group);
    else
      groups.erase(-group);
  }
  for (const pid_t left : groups) ::kill(-left, SIGKILL);
  ::_exit(0);
}

}  // namespace

Guardian::Guardian() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  process_ = ::fork();
  if (process_ == 0) {
    ::setsid();  // out of the reach of Ctrl-C
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) ::signal(signal, SIG_IGN);
    // Nothing of the launcher's stays open here, least of all its standard output, which a reader may wait to see
    // closed.
    ::dup2(ends[0], STDIN_FILENO);
    ::closefrom(STDIN_FILENO + 1);
    stand_guard(STDIN_FILENO);
  }
  ::close(ends[0]);
  pipe_ = ends[1];
}

Guardian::~Guardian() {
  if (pipe_ >= 0) ::close(pipe_);
  if (process_ > 0) ::waitpid(process_, nullptr, 0);
}

void Guardian::guard(pid_t group) {
  if (pipe_ >= 0 && ::write(pipe_, &group, sizeof group) < 0) return;  // without a guardian the job still runs
}

void Guardian::release(pid_t group) { guard(-group); }

}  // namespace hyperion::resilience
