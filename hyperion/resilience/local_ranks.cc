#include "hyperion/resilience/local_ranks.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "hyperion/base/descriptors.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/host/system_files.h"

extern char** environ;

namespace hyperion::resilience {
namespace {

using base::format;

struct Process {
  int rank = 0;
  pid_t pid = -1;  // and the number of its group
  int out = -1, err = -1;
  int watch = -1;  // readable once it has ended; -1 where the kernel has no such thing
  bool ended = false;
};

void close_if_open(int& descriptor) {
  if (descriptor >= 0) ::close(descriptor);
  descriptor = -1;
}

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      throw base::Error(format("no pipe for a rank's output: {}", std::strerror(errno)), base::descriptor_hint());
    read = ends[0], write = ends[1];
  }
  ~Pipe() { close_if_open(read), close_if_open(write); }
  int take_read() { return std::exchange(read, -1); }
};

bool is_dropped(std::string_view name, const std::vector<std::string>& dropped) {
  return std::any_of(dropped.begin(), dropped.end(), [&](const std::string& pattern) {
    return pattern.ends_with('*') ? name.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1))
                                  : name == pattern;
  });
}

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

std::vector<std::string> environment_of(const LocalRank& rank, const std::vector<std::string>& dropped,
                                        const std::string& mark) {
  std::vector<std::string> all{mark};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view name = name_of(*entry);
    const bool replaced = std::any_of(rank.environment.begin(), rank.environment.end(),
                                      [&](const std::string& own) { return name_of(own) == name; });
    if (!replaced && name != name_of(mark) && !is_dropped(name, dropped)) all.emplace_back(*entry);
  }
  all.insert(all.end(), rank.environment.begin(), rank.environment.end());
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// All that the child needs, made before the fork: this process has threads, so the child may not allocate.
struct Start {
  std::vector<std::string> words, environment;
  std::vector<char*> argv, envp;
  cpu_set_t cores;
  bool bound = false;
  pid_t parent = ::getpid();
};

[[noreturn]] void become_rank(const Start& start, int out, int err, int failure) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != start.parent) ::_exit(128 + SIGKILL);  // it died before the line above
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  if (start.bound) ::sched_setaffinity(0, sizeof start.cores, &start.cores);
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM, SIGUSR1, SIGHUP}) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvpe(start.argv[0], start.argv.data(), start.envp.data());
  const int code = errno;
  if (::write(failure, &code, sizeof code) < 0) ::_exit(126);
  ::_exit(127);
}

class LocalRanks final : public Ranks {
 public:
  explicit LocalRanks(Guardian& guardian) : guardian_(guardian) {}

  ~LocalRanks() override {
    for (auto& process : processes_) {
      if (process.ended) continue;
      ::kill(-process.pid, SIGKILL);
      ::waitpid(process.pid, nullptr, 0);
      guardian_.release(process.pid);
      close_all(process);
    }
  }

  void start(const LocalRank& rank, Start& start) {
    Pipe out, err, failure;
    const pid_t pid = ::fork();
    if (pid < 0)
      throw base::Error(format("no process for rank {}: {}", rank.rank, std::strerror(errno)),
                        "check the limits on processes and memory");
    if (pid == 0) become_rank(start, out.write, err.write, failure.write);
    ::setpgid(pid, pid);  // here too: whoever comes first
    guardian_.guard(pid);
    const int watch = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    if (watch >= 0) ::fcntl(watch, F_SETFD, FD_CLOEXEC);
    processes_.push_back({rank.rank, pid, out.take_read(), err.take_read(), watch, false});
    for (const int descriptor : {processes_.back().out, processes_.back().err})
      ::fcntl(descriptor, F_SETFL, O_NONBLOCK);
    close_if_open(failure.write);
    int code = 0;
    if (::read(failure.read, &code, sizeof code) == sizeof code)
      throw base::ConfigError(format("{} cannot be started: {}", start.words[0], std::strerror(code)),
                              "after -- comes a command of hyperion (train recipe.toml) or a program");
  }

  std::vector<pollfd> descriptors() const override {
    std::vector<pollfd> open;
    for (const auto& process : processes_)
      for (const int descriptor : {process.out, process.err, process.watch})
        if (descriptor >= 0) open.push_back({descriptor, POLLIN, 0});
    return open;
  }

  void handle(RankEvents& events) override {
    for (auto& process : processes_) {
      if (process.ended) continue;
      siginfo_t state{};
      const bool over = ::waitid(P_PID, static_cast<id_t>(process.pid), &state, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                        state.si_pid == process.pid;
      // What it started ends with it; done before it is waited for, while its number cannot be another's.
      if (over) ::kill(-process.pid, SIGKILL);
      pass_on(process, process.out, Stream::out, events);
      pass_on(process, process.err, Stream::err, events);
      if (over) end(process, events);
    }
  }

  void signal(int number) override {
    for (const auto& process : processes_)
      if (!process.ended) ::kill(-process.pid, number);
  }

  bool all_ended() const override {
    return std::all_of(processes_.begin(), processes_.end(), [](const Process& process) { return process.ended; });
  }

  std::vector<int> stopped() const override {
    std::vector<int> ranks;
    for (const auto& process : processes_) {
      if (process.ended) continue;
      const auto line = host::system_text("/", format("/proc/{}/stat", process.pid));
      const size_t name_end = line ? line->rfind(')') : std::string::npos;
      // T is stopped by a signal; t, by a debugger, is nobody's fault.
      if (name_end != std::string::npos && line->compare(name_end, 3, ") T") == 0) ranks.push_back(process.rank);
    }
    return ranks;
  }

  std::string place_of(int rank) const override {
    for (const auto& process : processes_)
      if (process.rank == rank) return format("process {}", process.pid);
    return {};
  }

 private:
  static void close_all(Process& process) {
    close_if_open(process.out), close_if_open(process.err), close_if_open(process.watch);
  }

  void pass_on(const Process& process, int& descriptor, Stream stream, RankEvents& events) {
    char bytes[1 << 14];
    // Not without end: a rank that prints all the time must not keep the launcher from its other duties.
    for (int turn = 0; descriptor >= 0 && turn < 64; ++turn) {
      const ssize_t got = ::read(descriptor, bytes, sizeof bytes);
      if (got > 0) events.output(process.rank, stream, {bytes, static_cast<size_t>(got)});
      if (got == 0) close_if_open(descriptor);
      if (got <= 0) return;
    }
  }

  void end(Process& process, RankEvents& events) {
    int status = 0;
    ::waitpid(process.pid, &status, 0);
    guardian_.release(process.pid);
    close_all(process);
    process.ended = true;
    events.ended(process.rank, ending_of(status));
  }

  Guardian& guardian_;
  std::vector<Process> processes_;
};

}  // namespace

std::unique_ptr<Ranks> start_local_ranks(const std::vector<LocalRank>& ranks, const std::vector<std::string>& command,
                                         const std::vector<std::string>& dropped, Guardian& guardian) {
  auto started = std::make_unique<LocalRanks>(guardian);
  for (const auto& rank : ranks) {
    Start start;
    start.words = command;
    start.environment = environment_of(rank, dropped, guardian.mark());
    start.argv = pointers_to(start.words), start.envp = pointers_to(start.environment);
    CPU_ZERO(&start.cores);
    for (const int core : rank.cores)
      if (core < CPU_SETSIZE) CPU_SET(core, &start.cores), start.bound = true;
    started->start(rank, start);
  }
  return started;
}

}  // namespace hyperion::resilience
