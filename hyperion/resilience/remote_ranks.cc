#include "hyperion/resilience/remote_ranks.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "hyperion/base/clock.h"
#include "hyperion/base/descriptors.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/host/system_files.h"
#include "hyperion/resilience/node_agent.h"

extern char** environ;

namespace hyperion::resilience {
namespace {

using base::format;

constexpr int kLost = 255;        // ssh's own code for it
constexpr double kShellEnds = 2;  // seconds
constexpr size_t kLongestHeader = 1 << 16;
constexpr size_t kLongestBanner = 1 << 20;  // that a shell may print before the greeting

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

std::vector<std::string> words_of(const RemoteNode& node) {
  std::vector<std::string> words = node.shell;
  words.push_back(node.host);
  words.push_back(format("cd {} && exec {} launch --agent", shell_quoted(node.folder), shell_quoted(node.program)));
  return words;
}

class RemoteRanks final : public Ranks {
 public:
  RemoteRanks(const RemoteNode& node, const NodePlan& plan, Guardian& guardian)
      : node_(node), first_(plan.first_rank), count_(plan.ranks), guardian_(guardian) {
    for (int i = 0; i < plan.ranks; ++i) running_.insert(plan.first_rank + i);
    int to[2], from[2];
    if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0)
      throw base::Error(format("no pipe to {}: {}", node_.host, std::strerror(errno)), base::descriptor_hint());
    pid_ = spawn(words_of(node_), to[0], from[1]);
    guardian_.guard(pid_);
    ::close(to[0]), ::close(from[1]);
    input_ = to[1], output_ = from[0];
    for (const int descriptor : {input_, output_}) ::fcntl(descriptor, F_SETFL, O_NONBLOCK);
    greeting_end_ = base::real_clock().seconds() + node_.greeting_seconds;
    tell(to_json(plan).dump() + "\n");
  }

  // The agent ends its ranks when its input ends.
  ~RemoteRanks() override {
    close_input();
    if (output_ >= 0) ::close(output_);
    while (!shell_has_ended() && base::real_clock().seconds() < shell_end_) ::usleep(20'000);
    ::kill(-pid_, SIGKILL);  // before it is waited for, while its number cannot be another's
    ::waitpid(pid_, nullptr, 0);
    guardian_.release(pid_);
  }

  std::vector<pollfd> descriptors() const override {
    std::vector<pollfd> open;
    if (output_ >= 0) open.push_back({output_, POLLIN, 0});
    if (output_ >= 0 && input_ >= 0 && !pending_.empty()) open.push_back({input_, POLLOUT, 0});
    return open;
  }

  void handle(RankEvents& events) override {
    char bytes[1 << 16];
    for (int turn = 0; output_ >= 0 && turn < 64; ++turn) {
      const ssize_t got = ::read(output_, bytes, sizeof bytes);
      if (got > 0) buffer_.append(bytes, static_cast<size_t>(got));
      if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        lose(format("the connection to node {} was lost", node_.host));
      if (got <= 0) break;
    }
    while (take_event(events)) {
    }
    flush();
    check_patience();
    const Ending last = given_up_ != 0 ? Ending{true, given_up_}
                        : killed_      ? Ending{true, SIGKILL}
                                       : Ending{false, kLost};
    if (output_ < 0)
      while (!running_.empty()) end(*running_.begin(), last, events);
  }

  void signal(int number) override {
    if (number == SIGKILL && last_end_ == 0) last_end_ = base::real_clock().seconds() + node_.last_seconds;
    if (!greeted_ && output_ >= 0 && (number == SIGINT || number == SIGTERM)) return give_up(number);
    tell(format("signal {}\n", number));
  }
  bool all_ended() const override { return running_.empty(); }
  std::vector<int> stopped() const override { return stopped_; }
  std::string place_of(int rank) const override { return is_own(rank) ? "node " + node_.host : ""; }

 private:
  bool is_own(int64_t rank) const { return rank >= first_ && rank < first_ + count_; }

  // From then on the shell has a moment to end by itself.
  void close_input() {
    if (input_ < 0) return;
    ::close(std::exchange(input_, -1));
    shell_end_ = base::real_clock().seconds() + kShellEnds;
  }

  // Never waits: a shell that hangs takes nothing.
  void tell(std::string_view bytes) {
    pending_ += bytes;
    flush();
  }

  void flush() {
    while (!pending_.empty() && output_ >= 0 && input_ >= 0) {
      const ssize_t written = ::write(input_, pending_.data(), pending_.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0 && errno == EAGAIN) return;
      if (written <= 0) return pending_.clear();  // gone: the end of its output tells
      pending_.erase(0, static_cast<size_t>(written));
    }
  }

  // Nothing is to be saved where nothing has begun. An agent that starts all the same finds its input at its end.
  void give_up(int number) {
    given_up_ = number;
    std::fprintf(stderr, "launch: node %s has not answered yet, and is given up\n", node_.host.c_str());
    ::kill(-pid_, SIGKILL);
    lose(format("node {} had not answered when the job was stopped", node_.host));
  }

  bool shell_has_ended() const {
    siginfo_t state{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &state, WEXITED | WNOHANG | WNOWAIT) == 0 && state.si_pid == pid_;
  }

  void check_patience() {
    const double now = base::real_clock().seconds();
    if (output_ < 0 || running_.empty()) return;
    // What the shell left behind may hold the pipe open for ever.
    if (gone_end_ == 0 && shell_has_ended()) gone_end_ = now + kShellEnds;
    if (gone_end_ > 0 && now >= gone_end_) return lose(format("the connection to node {} was lost", node_.host));
    if (!greeted_ && now >= greeting_end_)
      lose(format("node {} has not answered for {:.0f} s", node_.host, node_.greeting_seconds));
    if (last_end_ == 0 || now < last_end_) return;
    killed_ = true;
    ::kill(-pid_, SIGKILL);
    lose(format("node {} did not end its ranks in time; its remote shell was killed", node_.host));
  }

  void lose(std::string why) {
    ::close(output_);
    output_ = -1;
    lost_ = std::move(why);
  }

  void end(int rank, Ending ending, RankEvents& events) {
    if (running_.erase(rank) == 0) return;
    if (output_ < 0 && given_up_ == 0)
      events.output(rank, Stream::err,
                    format("error: {}\nhint: {}\n", lost_,
                           greeted_ ? "see whether that machine is up"
                                    : "see that ssh reaches it without a password, and that hyperion "
                                      "and this folder are at the same place there"));
    events.ended(rank, ending);
    if (running_.empty()) close_input();
  }

  // Whether a whole event was there.
  bool take_event(RankEvents& events) {
    if (!greeted_) {
      const size_t hello = buffer_.find(kAgentHello);
      if (hello == std::string::npos) {
        if (buffer_.size() > kLongestBanner && output_ >= 0)
          lose(format("what node {} says is no answer of hyperion's", node_.host));
        return false;
      }
      buffer_.erase(0, hello + kAgentHello.size());
      greeted_ = true;
    }
    const size_t line_end = buffer_.find('\n');
    if (line_end == std::string::npos) {
      if (buffer_.size() > kLongestHeader && output_ >= 0) lose(format("what node {} says cannot be read", node_.host));
      return false;
    }
    const auto words = host::split(std::string_view(buffer_).substr(0, line_end), ' ');
    std::vector<int64_t> numbers;
    for (size_t i = 1; i < words.size(); ++i) numbers.push_back(host::whole_number(words[i]).value_or(-1));
    size_t used = line_end + 1;
    const std::string kind = words.empty() ? "" : words[0];
    const bool known = numbers.size() >= 2 && is_own(numbers[0]) && numbers[1] >= 0 && numbers[1] <= INT_MAX;
    if ((kind == "out" || kind == "err") && known) {
      const auto size = static_cast<size_t>(numbers[1]);
      if (buffer_.size() < used + size) return false;
      const int rank = static_cast<int>(numbers[0]);
      if (running_.count(rank) != 0)
        events.output(rank, kind == "out" ? Stream::out : Stream::err, std::string_view(buffer_).substr(used, size));
      used += size;
    } else if ((kind == "exit" || kind == "killed") && known) {
      end(static_cast<int>(numbers[0]), {kind == "killed", static_cast<int>(numbers[1])}, events);
    } else if (kind == "stopped") {
      stopped_.clear();
      for (const int64_t rank : numbers)
        if (is_own(rank)) stopped_.push_back(static_cast<int>(rank));
    }
    buffer_.erase(0, used);
    return true;
  }

  const RemoteNode node_;
  const int first_, count_;
  Guardian& guardian_;
  std::set<int> running_;
  std::vector<int> stopped_;
  pid_t pid_ = -1;
  int input_ = -1, output_ = -1;
  double greeting_end_ = 0, last_end_ = 0, shell_end_ = 0, gone_end_ = 0;  // 0: not set
  bool greeted_ = false, killed_ = false;
  int given_up_ = 0;              // by which signal; 0: not
  std::string lost_;              // why there is no output any more
  std::string buffer_, pending_;  // read, and still to be written
};

}  // namespace

std::unique_ptr<Ranks> start_remote_ranks(const RemoteNode& node, const NodePlan& plan, Guardian& guardian) {
  return std::make_unique<RemoteRanks>(node, plan, guardian);
}

}  // namespace hyperion::resilience
