#include "hyperion/comm/store_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::comm {
namespace {

constexpr double kGraceSeconds = 10;

// Least of all may it hold the rank's standard output, whose end a launcher waits for, or a lock on a run's folder.
void let_go_of_all_but(std::vector<int> kept) {
  const int nothing = ::open("/dev/null", O_RDWR);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, standard);
  kept.insert(kept.end(), {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO});
  std::sort(kept.begin(), kept.end());
  for (size_t i = 0; i < kept.size(); ++i) {
    const int first = kept[i] + 1, last = i + 1 < kept.size() ? kept[i + 1] - 1 : INT_MAX;
    if (first <= last) ::close_range(static_cast<unsigned>(first), static_cast<unsigned>(last), 0);
  }
}

}  // namespace

void fork_store(const StoreServerOptions& options) {
  StoreServer server(options);
  int lifeline[2];
  if (::pipe2(lifeline, O_CLOEXEC) != 0) throw base::Error(base::format("no pipe: {}", std::strerror(errno)));
  const pid_t child = ::fork();
  if (child < 0)
    throw base::Error(base::format("no process for the store: {}", std::strerror(errno)),
                      "check the limits on processes and memory");
  if (child == 0) {
    ::setsid();  // out of the reach of the terminal's signals
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) ::signal(signal, SIG_IGN);
    ::prctl(PR_SET_NAME, "hyperion-store");
    auto kept = server.descriptors();
    kept.push_back(lifeline[0]);
    let_go_of_all_but(kept);
    server.serve(lifeline[0], kGraceSeconds);
    ::_exit(0);
  }
  ::close(lifeline[0]);
  // lifeline[1] stays open for as long as this process lives.
}

}  // namespace hyperion::comm
