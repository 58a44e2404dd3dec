#include "hyperion/resilience/remote_ranks.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/host/system_files.h"
#include "hyperion/resilience/node_agent.h"

extern char** environ;

namespace hyperion::resilience {
namespace {

using base::format;

constexpr int kLost = 255;  // ssh's own code for it
constexpr size_t kLongestHeader = 1 << 16;

// The remote shell in a process group of its own, out of the reach of the terminal's Ctrl-C, which comes as a line.
pid_t spawn(const std::vector<std::string>& words, int input, int output) {
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  sigset_t none, usual;
  ::sigemptyset(&none), ::sigemptyset(&usual);
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM, SIGUSR1, SIGHUP}) ::sigaddset(&usual, signal);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &usual);
  std::vector<char*> argv;
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int code = ::posix_spawnp(&pid, argv[0], &files, &attributes, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&files), ::posix_spawnattr_destroy(&attributes);
  if (code != 0)
    throw base::ConfigError(format("{} cannot be started: {}", words[0], std::strerror(code)),
                            "install ssh, or name another remote shell with --ssh");
  return pid;
}

class RemoteRanks final : public Ranks {
 public:
  RemoteRanks(std::string host, const NodePlan& plan, const std::vector<std::string>& words) : host_(std::move(host)) {
    for (int i = 0; i < plan.ranks; ++i) running_.insert(plan.first_rank + i);
    first_ = plan.first_rank, count_ = plan.ranks;
    int to[2], from[2];
    if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0)
      throw base::Error(format("no pipe to {}: {}", host_, std::strerror(errno)), "raise the limit of open files");
    pid_ = spawn(words, to[0], from[1]);
    ::close(to[0]), ::close(from[1]);
    input_ = to[1], output_ = from[0];
    ::fcntl(output_, F_SETFL, O_NONBLOCK);
    tell(to_json(plan).dump() + "\n");
  }

  // The agent ends its ranks when its input ends.
  ~RemoteRanks() override {
    if (input_ >= 0) ::close(input_);
    if (output_ >= 0) ::close(output_);
    if (pid_ <= 0) return;
    for (int i = 0; i < 100; ++i, ::usleep(20'000))
      if (::waitpid(pid_, nullptr, WNOHANG) == pid_) return;
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  std::vector<int> descriptors() const override {
    return output_ >= 0 ? std::vector<int>{output_} : std::vector<int>{};
  }

  void handle(RankEvents& events) override {
    char bytes[1 << 16];
    for (int turn = 0; output_ >= 0 && turn < 64; ++turn) {
      const ssize_t got = ::read(output_, bytes, sizeof bytes);
      if (got > 0) buffer_.append(bytes, static_cast<size_t>(got));
      if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) lose();
      if (got <= 0) break;
    }
    while (take_event(events)) {
    }
    if (output_ < 0)
      while (!running_.empty()) end(*running_.begin(), {false, kLost}, events);
  }

  void signal(int number) override { tell(format("signal {}\n", number)); }
  bool all_ended() const override { return running_.empty(); }
  std::vector<int> stopped() const override { return stopped_; }
  std::string place_of(int rank) const override {
    return rank >= first_ && rank < first_ + count_ ? "node " + host_ : "";
  }

 private:
  void tell(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(input_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return;  // gone: the end of its output tells
      bytes.remove_prefix(static_cast<size_t>(written));
    }
  }

  void lose() {
    ::close(output_);
    output_ = -1;
  }

  void end(int rank, Ending ending, RankEvents& events) {
    if (running_.erase(rank) == 0) return;
    if (output_ < 0)
      events.output(rank, Stream::err,
                    format("error: the connection to node {} was lost\nhint: {}\n", host_,
                           greeted_ ? "see whether that machine is up"
                                    : "see that ssh reaches it without a password, and that hyperion "
                                      "and this folder are at the same place there"));
    events.ended(rank, ending);
  }

  // Whether a whole event was there.
  bool take_event(RankEvents& events) {
    if (!greeted_) {
      const size_t hello = buffer_.find(kAgentHello);
      if (hello == std::string::npos) return false;
      buffer_.erase(0, hello + kAgentHello.size());
      greeted_ = true;
    }
    const size_t line_end = buffer_.find('\n');
    if (line_end == std::string::npos) {
      if (buffer_.size() > kLongestHeader) lose();
      return false;
    }
    const auto words = host::split(std::string_view(buffer_).substr(0, line_end), ' ');
    std::vector<int> numbers;
    for (size_t i = 1; i < words.size(); ++i)
      numbers.push_back(static_cast<int>(host::whole_number(words[i]).value_or(-1)));
    size_t used = line_end + 1;
    const std::string kind = words.empty() ? "" : words[0];
    const bool known = numbers.size() >= 2 && numbers[0] >= first_ && numbers[0] < first_ + count_ && numbers[1] >= 0;
    if ((kind == "out" || kind == "err") && known) {
      const auto size = static_cast<size_t>(numbers[1]);
      if (buffer_.size() < used + size) return false;
      if (running_.count(numbers[0]) != 0)
        events.output(numbers[0], kind == "out" ? Stream::out : Stream::err,
                      std::string_view(buffer_).substr(used, size));
      used += size;
    } else if ((kind == "exit" || kind == "killed") && known) {
      end(numbers[0], {kind == "killed", numbers[1]}, events);
    } else if (kind == "stopped") {
      stopped_ = numbers;
    }
    buffer_.erase(0, used);
    return true;
  }

  std::string host_;
  int first_ = 0, count_ = 0;
  std::set<int> running_;
  std::vector<int> stopped_;
  pid_t pid_ = -1;
  int input_ = -1, output_ = -1;
  bool greeted_ = false;
  std::string buffer_;
};

}  // namespace

std::unique_ptr<Ranks> start_remote_ranks(const std::string& host, const NodePlan& plan,
                                          const std::vector<std::string>& shell, const std::string& program,
                                          const std::string& folder) {
  std::vector<std::string> words = shell;
  words.push_back(host);
  words.push_back(format("cd {} && exec {} launch --agent", shell_quoted(folder), shell_quoted(program)));
  return std::make_unique<RemoteRanks>(host, plan, words);
}

}  // namespace hyperion::resilience
