#include "hyperion/resilience/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "hyperion/base/clock.h"
#include "hyperion/base/descriptors.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/signals.h"

namespace hyperion::resilience {
namespace {

using base::format;

constexpr int kLook = 200;               // milliseconds
constexpr double kCleanUp = 10;          // seconds for the guardian of a start that was killed
constexpr size_t kLongestEnd = 1 << 16;  // bytes of what a start says at its end

void say_aloud(const std::string& text) { std::fprintf(stderr, "launch: %s\n", text.c_str()); }

double seconds_now() { return base::real_clock().seconds(); }

std::string to_text(const JobEnd& end) {
  return base::Json{{"code", end.code}, {"failed", end.failed}, {"why", end.why}}.dump(
      -1, ' ', false, base::Json::error_handler_t::replace);
}

// A start of the job as the supervisor sees it.
class JobStart {
 public:
  JobStart(pid_t pid, int pipe) : pid_(pid), pipe_(pipe) {}
  JobStart(const JobStart&) = delete;
  JobStart& operator=(const JobStart&) = delete;
  ~JobStart() { ::close(pipe_); }

  // Until it has ended; hands on the signals that come meanwhile.
  void wait(StopSignals& signals) {
    while (!has_ended()) {
      pollfd watched[] = {{signals.descriptor(), POLLIN, 0}, {pipe_, POLLIN, 0}};
      ::poll(watched, pipe_open_ ? 2 : 1, kLook);
      while (const int signal = signals.next()) hand_on(signal);
      if (watched[1].revents != 0 && pipe_open_) read_more();
    }
    while (pipe_open_) read_more();
    seconds_ = seconds_now() - begun_;
  }

  bool asked_to_stop() const { return asked_to_stop_; }
  bool killed() const { return !told() && WIFSIGNALED(status_); }

  // What it told of its end; where it was killed before, that. Nothing where it threw, and said so itself.
  std::optional<JobEnd> end() const {
    auto end = told();
    if (!end && killed())
      end = {exit_code(), !asked_to_stop_,
             format("the process that held the job's store was ended by {}", ending_of(status_).text())};
    if (end) end->seconds = seconds_;
    return end;
  }
  int exit_code() const { return ending_of(status_).exit_code(); }

 private:
  std::optional<JobEnd> told() const {
    try {
      const auto json = base::parse_json(said_, "the end of a start");
      return JobEnd{json.at("code"), json.at("failed"), json.at("why")};
    } catch (const std::exception&) {  // nothing, or half of it
      return std::nullopt;
    }
  }

  // Orphans of the job are this process's children too.
  bool has_ended() {
    int status = 0;
    for (pid_t ended; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;)
      if (ended == pid_) return status_ = status, true;
    return false;
  }

  void read_more() {
    char bytes[4096];
    const ssize_t got = ::read(pipe_, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) return;
    if (got > 0 && said_.size() < kLongestEnd) said_.append(bytes, static_cast<size_t>(got));
    pipe_open_ = got > 0;
  }

  void hand_on(int signal) {
    ::kill(pid_, signal);
    if (signal != SIGTSTP) {
      asked_to_stop_ = true;
      return;
    }
    // It stops its ranks, then itself; this process stops last, and goes on first.
    siginfo_t state{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &state, WSTOPPED | WEXITED | WNOWAIT);
    ::kill(::getpid(), SIGSTOP);
    ::kill(pid_, SIGCONT);
  }

  pid_t pid_;
  int pipe_;
  double begun_ = seconds_now(), seconds_ = 0;
  bool pipe_open_ = true, asked_to_stop_ = false;
  int status_ = 0;
  std::string said_;
};

// In the new process. Ctrl-C reaches it by way of the supervisor alone, whose end is its end too.
void become_start(pid_t supervisor) {
  ::setpgid(0, 0);
  ::signal(SIGTTOU, SIG_IGN);  // it may write to the terminal all the same
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != supervisor) ::_exit(128 + SIGKILL);  // it died before the line above
}

// What a start left behind when it was killed comes to this process: its guardian, which ends the ranks.
void wait_for_orphans() {
  for (const double end = seconds_now() + kCleanUp; seconds_now() < end; ::usleep(5'000)) {
    pid_t ended = 0;
    while ((ended = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (ended < 0) return;  // there is nobody
  }
}

// The signal that asked to stop meanwhile; 0: none.
int pause_for(double seconds, StopSignals& signals) {
  for (const double end = seconds_now() + seconds; seconds_now() < end;) {
    pollfd watched{signals.descriptor(), POLLIN, 0};
    ::poll(&watched, 1, static_cast<int>(std::clamp((end - seconds_now()) * 1000, 1.0, double{kLook})));
    const int signal = signals.next();
    if (signal == SIGTSTP)
      ::kill(::getpid(), SIGSTOP);
    else if (signal != 0)
      return signal;
  }
  return 0;
}

std::string from_where(const std::optional<Standing>& standing) {
  if (!standing) return "";
  const std::string reached =
      standing->reached > standing->saved ? format("; step {} was reached", standing->reached) : "";
  return standing->saved > 0 ? format(", from the checkpoint of step {}{}", standing->saved, reached)
                             : format(", from its beginning, as there is no checkpoint yet{}", reached);
}

// Of a new start. In its own process there is `code`, of what the start did, and no `start`.
struct Forked {
  std::unique_ptr<JobStart> start;
  int code = 0;
};

Forked fork_start(const Supervised& job, int number, const std::string& why) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw base::Error(format("no pipe for a start of the job: {}", std::strerror(errno)), base::descriptor_hint());
  std::fflush(stdout);
  const pid_t supervisor = ::getpid(), pid = ::fork();
  if (pid < 0)
    throw base::Error(format("no process for a start of the job: {}", std::strerror(errno)),
                      "check the limits on processes and memory");
  if (pid == 0) {
    ::close(ends[0]);
    become_start(supervisor);
    const JobEnd end = job.start(number, why);
    const std::string text = to_text(end);
    return {nullptr, ::write(ends[1], text.data(), text.size()) < 0 ? 1 : end.code};
  }
  ::close(ends[1]);
  return {std::make_unique<JobStart>(pid, ends[0]), 0};
}

int stopped_by(int signal, const Supervised& job) {
  say_aloud(format("{} while nothing of the job ran; what is saved stays", ::strsignal(signal)));
  return job.resumable ? base::stop_exit_code(signal) : 128 + signal;
}

}  // namespace

int supervise(const Supervised& job) {
  StopSignals signals;
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  RestartPolicy policy(job.restarts);
  std::string why;
  if (const int signal = signals.next()) return stopped_by(signal, job);
  for (;;) {
    const Forked forked = fork_start(job, policy.restarts(), why);
    if (forked.start == nullptr) return forked.code;
    JobStart& start = *forked.start;
    start.wait(signals);
    if (start.killed()) wait_for_orphans();
    auto end = start.end();
    if (!end && (policy.restarts() == 0 || start.asked_to_stop())) return start.exit_code();
    if (!end) end = JobEnd{start.exit_code(), true, "the job could not be started again"};
    if (start.killed()) say_aloud(end->why);
    if (!end->failed || start.asked_to_stop()) return end->code;
    const auto standing = job.standing ? std::optional(job.standing()) : std::nullopt;
    const auto next = policy.after(*end, standing);
    if (!next.again) return say_aloud(next.why_not), end->code;
    why = end->why;
    say_aloud(format("restart {} of {} in {:.3g} s{}", policy.restarts(), job.restarts.most, next.wait,
                     from_where(standing)));
    if (const int signal = pause_for(next.wait, signals)) return stopped_by(signal, job);
  }
}

}  // namespace hyperion::resilience
