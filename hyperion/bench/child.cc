#include "hyperion/bench/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/signals.h"

namespace hyperion::bench {
namespace {

constexpr int kLookMs = 100;  // between looks at whether a stop was asked for

// A started program; ended and waited for when destroyed before its end.
class Child {
 public:
  explicit Child(const std::vector<std::string>& words) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw base::Error(base::format("no pipe: {}", std::strerror(errno)));
    output_ = ends[0];
    std::vector<char*> arguments;
    for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const int failed = ::posix_spawnp(&id_, arguments[0], &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (failed == 0) return;
    ::close(output_);
    throw base::Error(base::format("{} cannot be started: {}", words[0], std::strerror(failed)));
  }
  ~Child() {
    ::close(output_);
    if (id_ <= 0) return;
    ::kill(id_, SIGTERM);
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // False at the end of what it prints.
  bool read(std::string& text) {
    for (;;) {
      base::throw_if_stopped("waiting for another program");
      pollfd ready{output_, POLLIN, 0};
      if (::poll(&ready, 1, kLookMs) <= 0) continue;
      char piece[4096];
      const ssize_t got = ::read(output_, piece, sizeof piece);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      text.append(piece, static_cast<size_t>(got));
      return true;
    }
  }

  int wait() {
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    id_ = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  pid_t id_ = 0;
  int output_ = -1;
};

}  // namespace

int run_child(const std::vector<std::string>& words, const std::function<void(std::string_view line)>& line) {
  HYPERION_CHECK(!words.empty(), "a program has a name");
  Child child(words);
  std::string waiting;
  while (child.read(waiting)) {
    size_t begin = 0;
    for (size_t end; (end = waiting.find('\n', begin)) != waiting.npos; begin = end + 1)
      line(std::string_view(waiting).substr(begin, end - begin));
    waiting.erase(0, begin);
  }
  if (!waiting.empty()) line(waiting);
  return child.wait();
}

}  // namespace hyperion::bench
