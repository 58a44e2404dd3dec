#include "hyperion/resilience/guardian.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>

#include "hyperion/base/format.h"
#include "hyperion/host/system_files.h"

namespace hyperion::resilience {
namespace {

// All processes of this user that were started with this word in their environment. One that is started meanwhile is
// met in the next round.
void end_marked(const std::string& word) {
  constexpr int kMostRounds = 100;  // of 10 ms: a process that waits for a disk cannot be killed
  bool any = true;
  for (int round = 0; any && round < kMostRounds; ++round) {
    any = false;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
      const auto process = host::whole_number(entry.path().filename().string());
      if (!process || *process == ::getpid()) continue;
      const auto environment = host::system_text("/", entry.path().string() + "/environ");
      if (!environment || environment->find(word) == std::string::npos) continue;
      ::kill(static_cast<pid_t>(*process), SIGKILL);
      any = true;
    }
    if (any) ::usleep(10'000);
  }
}

// Until the launcher's end of the pipe closes; a negative number takes a group off the list.
[[noreturn]] void stand_guard(int pipe, const std::string& word) {
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
  try {
    end_marked(word);
  } catch (...) {  // never back into the launcher's code
  }
  ::_exit(0);
}

// Somebody may have stopped it, as with SIGSTOP or under a debugger: it is woken, and if that is in vain, killed.
void wait_for_end(pid_t process) {
  constexpr int kMostRounds = 500;  // of 10 ms: several times what end_marked takes
  for (int round = 0; round < kMostRounds; ++round) {
    ::kill(process, SIGCONT);
    if (::waitpid(process, nullptr, WNOHANG) != 0) return;
    ::usleep(10'000);
  }
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
}

}  // namespace

Guardian::Guardian() {
  std::random_device random;
  const std::string word = base::format("{}-{:08x}{:08x}", ::getpid(), random(), random());
  const char* around = std::getenv(kLaunchersVariable);
  mark_ = base::format("{}={}{}{}", kLaunchersVariable, around != nullptr ? around : "", around != nullptr ? "," : "",
                       word);
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
    stand_guard(STDIN_FILENO, word);
  }
  ::close(ends[0]);
  pipe_ = ends[1];
}

Guardian::~Guardian() {
  if (pipe_ >= 0) ::close(pipe_);
  if (process_ > 0) wait_for_end(process_);
}

void Guardian::guard(pid_t group) {
  if (pipe_ >= 0 && ::write(pipe_, &group, sizeof group) < 0) return;  // without a guardian the job still runs
}

void Guardian::release(pid_t group) { guard(-group); }

}  // namespace hyperion::resilience
