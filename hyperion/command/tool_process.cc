#include "hyperion/command/tool_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/shell.h"
#include "hyperion/base/signals.h"

namespace hyperion::cli {
namespace {

constexpr int kLookMicroseconds = 50'000;

std::string_view variable_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

std::vector<std::string> environment_with(const std::vector<std::string>& added) {
  std::vector<std::string> all = added;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    bool replaced = false;
    for (const auto& own : added) replaced = replaced || variable_of(own) == variable_of(*entry);
    if (!replaced) all.emplace_back(*entry);
  }
  return all;
}

std::vector<char*> as_pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

pid_t start_group(const ToolCall& call, const std::string& mark) {
  auto words = call.words, added = call.environment;
  added.push_back(mark);
  auto environment = environment_with(added);
  const auto argv = as_pointers(words), envp = as_pointers(environment);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, call.log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (call.output.empty())
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  else
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, call.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  sigset_t none, plain;
  ::sigemptyset(&none), ::sigemptyset(&plain);
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM, SIGUSR1}) ::sigaddset(&plain, signal);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &plain);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int failed = ::posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) throw base::Error(base::format("{} cannot be started: {}", call.words[0], std::strerror(failed)));
  return pid;
}

std::string quoted_where_needed(const std::string& word) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_=+./:,@%").find(c) != std::string_view::npos;
  };
  return !word.empty() && std::all_of(word.begin(), word.end(), plain) ? word : base::shell_quoted(word);
}

class ToolGroup {
 public:
  ToolGroup(pid_t leader, resilience::Guardian& guardian) : leader_(leader), guardian_(guardian) {
    guardian_.guard(leader);
  }
  ~ToolGroup() {
    if (leader_ > 0) finish();
  }
  ToolGroup(const ToolGroup&) = delete;
  ToolGroup& operator=(const ToolGroup&) = delete;

  bool leader_ended() const {
    siginfo_t state{};
    return ::waitid(P_PID, static_cast<id_t>(leader_), &state, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           state.si_pid == leader_;
  }
  void ask_to_end() const {
    ::kill(-leader_, SIGTERM);
    for (const double begun = base::now(); !leader_ended() && base::now() - begun < kGraceSeconds;)
      ::usleep(kLookMicroseconds);
  }
  // What it started ends with it; done before it is waited for, while its number cannot be another's.
  int finish() {
    ::kill(-leader_, SIGKILL);
    int status = 0;
    while (::waitpid(leader_, &status, 0) < 0 && errno == EINTR) {
    }
    guardian_.release(leader_);
    leader_ = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  pid_t leader_;
  resilience::Guardian& guardian_;
};

}  // namespace

ToolEnd run_tool(const ToolCall& call, resilience::Guardian& guardian) {
  HYPERION_CHECK(!call.words.empty(), "a program has a name");
  const double begun = base::now();
  ToolGroup group(start_group(call, guardian.mark()), guardian);
  ToolEnd end;
  while (!group.leader_ended()) {
    const bool stopped = base::stop_signal() != 0;
    end.too_long = base::now() - begun > call.limit;
    if (stopped || end.too_long) group.ask_to_end();
    if (stopped) group.finish();
    base::throw_if_stopped("waiting for another program");
    if (end.too_long) break;
    ::usleep(kLookMicroseconds);
  }
  end.code = group.finish();
  end.seconds = base::now() - begun;
  return end;
}

std::string command_text(const ToolCall& call) {
  std::string text;
  for (const auto& variable : call.environment) {
    const auto name = std::string(variable_of(variable));
    text += base::format("{}={} ", name, quoted_where_needed(variable.substr(name.size() + 1)));
  }
  for (size_t i = 0; i < call.words.size(); ++i) text += (i == 0 ? "" : " ") + quoted_where_needed(call.words[i]);
  return text + (call.output.empty() ? "" : " > " + quoted_where_needed(call.output.string()));
}

}  // namespace hyperion::cli
