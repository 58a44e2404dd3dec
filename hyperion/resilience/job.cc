#include "hyperion/resilience/job.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/signals.h"

namespace hyperion::resilience {
namespace {

using base::format;

constexpr int kPollMilliseconds = 200;  // where the kernel tells of no end, and for what has deadlines

constexpr double kLookSeconds = 0.5;  // at the ranks and the other launchers
constexpr double kSameMoment = 0.25;
constexpr double kAfterPause = 5;  // seconds until heartbeats can be trusted again
constexpr int kElsewhere = -1;     // in place of a rank: another launcher's

double now() { return base::real_clock().seconds(); }

void say(const std::string& text) { std::fprintf(stderr, "launch: %s\n", text.c_str()); }

// "1, 3 and 4"
std::string listed(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size(); ++i)
    text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
  return (ranks.size() == 1 ? "rank " : "ranks ") + text;
}

sigset_t stop_set() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGTSTP}) ::sigaddset(&set, signal);
  return set;
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t set = stop_set();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  descriptor_ = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  noted_ = base::stop_signal();
  if (descriptor_ < 0) throw base::Error(format("signals cannot be watched: {}", std::strerror(errno)));
}

StopSignals::~StopSignals() {
  ::close(descriptor_);
  const sigset_t set = stop_set();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

int StopSignals::next() {
  if (noted_ != 0) return std::exchange(noted_, 0);
  signalfd_siginfo info{};
  return ::read(descriptor_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

struct Job::State {
  struct Blame {
    int rank;
    Ending ending;
    std::string why;
    bool orderly;     // it did as it was told
    bool after_stop;  // all had been asked to stop
    double at;
  };
  std::optional<Blame> blame;
  std::vector<std::optional<Ending>> endings;
  std::vector<int> followers;       // ended badly too, but not first
  int stops = 0, first_stop = 0;    // requests passed on, and the first one's signal
  double term_at = 0, kill_at = 0;  // 0: not set
  bool killed = false;              // SIGKILL was sent
  struct Frozen {
    double since;
    double patience;  // seconds; 0: for ever
  };
  std::map<int, Frozen> frozen;  // and told of
  double next_look = 0;
  double first_came = 0;  // 0: nobody has
  bool late_told = false;

  // Exit codes 75 and 130 say that what could be saved is saved (README.md); a program that has no such habit dies of
  // the signal itself.
  bool is_orderly(const Ending& ending) const {
    if (!ending.by_signal) return ending.number == 75 || ending.number == 130;
    if (ending.number == SIGKILL) return killed;
    return ending.number == SIGTERM ? stops > 0 || kill_at > 0 : stops > 0;
  }
  // Whether it tells more of why the job ended than what ended first. Ranks of a training run save together: once all
  // were asked to stop, one that did so in good order says that all is saved, and what fails beside it missed its
  // peers.
  bool outranks(const Ending& ending, bool orderly, bool saves_together) const {
    if (is_deeper_cause(ending)) return true;
    if (stops == 0 || !saves_together) return !orderly && blame->orderly;
    return orderly && !ending.by_signal && !blame->orderly && !blame->ending.by_signal && blame->after_stop;
  }
  // A crash is nobody else's fault, while an exit in the same moment may have followed from it.
  bool is_deeper_cause(const Ending& ending) const {
    return ending.by_signal && ending.number != SIGTERM && !killed && !blame->ending.by_signal &&
           now() - blame->at < kSameMoment;
  }
};

Job::Job(std::vector<std::unique_ptr<Ranks>> machines, RankOutput& output, StopSignals& signals, JobSettings settings)
    : machines_(std::move(machines)),
      output_(output),
      signals_(signals),
      limits_(settings.limits),
      pulse_(std::move(settings.pulse)),
      neighbours_(std::move(settings.neighbours)),
      slow_step_(std::move(settings.slow_step)),
      resumable_(settings.resumable),
      state_(std::make_unique<State>()) {
  state_->endings.resize(static_cast<size_t>(settings.world));
}

Job::~Job() = default;

int Job::run() {
  while (!all_ended()) {
    std::vector<pollfd> watched{{signals_.descriptor(), POLLIN, 0}};
    for (const auto& machine : machines_)
      for (const pollfd& one : machine->descriptors()) watched.push_back(one);
    ::poll(watched.data(), watched.size(), kPollMilliseconds);
    while (const int signal = signals_.next()) forward(signal);
    for (const auto& machine : machines_) machine->handle(*this);
    check_deadlines();
    if (now() < state_->next_look) continue;
    state_->next_look = now() + kLookSeconds;
    check_frozen();
    check_late();
    check_neighbours();
  }
  if (state_->blame) report();
  return exit_code();
}

int Job::exit_code() const {
  if (!state_->blame) return 0;
  const auto& blame = *state_->blame;
  // Whoever had to be killed after a request to stop ended by that request.
  const bool asked = blame.orderly && blame.ending.by_signal && state_->first_stop != 0;
  if (asked && resumable_ && blame.ending.number != SIGKILL && state_->stops == 1)
    return base::stop_exit_code(state_->first_stop);
  return asked ? 128 + state_->first_stop : blame.ending.exit_code();
}

JobEnd Job::end() const {
  if (!state_->blame) return {};
  const auto& blame = *state_->blame;
  const std::string who = blame.rank == kElsewhere ? "" : format("rank {} of {} ", blame.rank, state_->endings.size());
  return {exit_code(), !blame.orderly, who + blame.why};
}

void Job::output(int rank, Stream stream, std::string_view bytes) { output_.add(rank, stream, bytes); }

void Job::ended(int rank, Ending ending) {
  output_.finish(rank);
  state_->endings.at(static_cast<size_t>(rank)) = ending;
  if (!ending.failed()) return;
  const bool orderly = state_->is_orderly(ending);
  const auto& first = state_->blame;
  if (first && !state_->outranks(ending, orderly, resumable_)) {
    state_->followers.push_back(rank);
    return;
  }
  if (first) state_->followers.push_back(first->rank);
  const bool at_once = state_->stops > 1 && ending.number == 128 + SIGINT;  // a second Ctrl-C saves nothing
  const char* how = !orderly           ? "ended with"
                    : ending.by_signal ? "was stopped by"
                    : at_once          ? "was stopped at once, with"
                                       : "stopped in good order, with";
  std::vector<int> frozen;  // whom it may have waited for in vain
  for (const auto& [other, since] : state_->frozen)
    if (other != rank) frozen.push_back(other);
  const std::string beside = orderly || frozen.empty()
                                 ? ""
                                 : format(", while {} {} frozen", listed(frozen), frozen.size() == 1 ? "was" : "were");
  blame(rank, ending, format("{} {}{}", how, ending.text(), beside), orderly);
}

void Job::blame(int rank, Ending ending, const std::string& why, bool orderly) {
  state_->blame = State::Blame{rank, ending, why, orderly, state_->stops > 0, now()};
  if (neighbours_.tell && !orderly && rank != kElsewhere) neighbours_.tell(format("rank {} {}", rank, why));
  if (pulse_.end && !orderly) pulse_.end(rank == kElsewhere ? why : format("rank {} {}{}", rank, why, reason_of(rank)));
  if (state_->kill_at > 0) return;
  if (orderly) {
    // Those who were asked to stop take the time they need; others should have heard of it from this rank.
    if (state_->stops == 0) state_->term_at = now() + limits_.orderly_seconds;
    return;
  }
  signal_all(SIGTERM);
  state_->kill_at = now() + limits_.kill_seconds;
}

// A terminal's Ctrl-C reaches only this process: the ranks are in groups of their own, and get it once, from here.
void Job::forward(int signal) {
  if (signal == SIGTSTP) return pause();
  const int passed = signal == SIGHUP ? SIGTERM : signal;  // the terminal is gone: save and leave
  if (++state_->stops == 1) state_->first_stop = passed;
  if (state_->stops == 1) say(format("{}: passed on to all ranks; a second stops them at once", ::strsignal(signal)));
  const bool impatient = state_->stops > 1 && (signal == SIGINT || signal == SIGTERM);
  if (impatient && state_->stops > 2) state_->killed = true;
  signal_all(state_->killed ? SIGKILL : passed);
  if (impatient && state_->kill_at == 0) state_->kill_at = now() + limits_.kill_seconds;
}

// Ctrl-Z: all of the job stops, and goes on with this process.
void Job::pause() {
  signal_all(SIGSTOP);
  ::kill(::getpid(), SIGSTOP);
  signal_all(SIGCONT);
  state_->next_look = now() + kAfterPause;
}

void Job::check_deadlines() {
  if (state_->term_at > 0 && now() >= state_->term_at) {
    state_->term_at = 0;
    signal_all(SIGTERM);
    state_->kill_at = now() + limits_.kill_seconds;
  }
  if (state_->kill_at > 0 && now() >= state_->kill_at) {
    state_->killed = true;
    signal_all(SIGKILL);
    state_->kill_at = now() + limits_.kill_seconds;
  }
}

double Job::patience_with_stopped() const {
  constexpr double kLeast = 2 - kLookSeconds, kSteps = 3;  // it stood still for up to one look before
  const double step = slow_step_ ? slow_step_() : 0;
  if (step <= 0) return limits_.frozen_seconds;
  const double patience = std::max(kLeast, kSteps * step);
  return limits_.frozen_seconds > 0 ? std::min(limits_.frozen_seconds, patience) : patience;
}

void Job::check_frozen() {
  const char* const kStopped = "stopped by a signal";
  std::map<int, std::string> frozen;
  for (const auto& machine : machines_)
    for (const int rank : machine->stopped()) frozen[rank] = kStopped;
  constexpr double kSilence = 5;
  if (pulse_.silent)
    for (const int rank : pulse_.silent(kSilence))
      if (!state_->endings.at(static_cast<size_t>(rank))) frozen.emplace(rank, "sends no heartbeat");
  auto& known = state_->frozen;
  for (auto it = known.begin(); it != known.end();) {
    const bool still = frozen.count(it->first) != 0 || state_->endings.at(static_cast<size_t>(it->first)).has_value();
    if (!still) say(format("rank {} runs again after {:.0f} s", it->first, now() - it->second.since));
    it = still ? std::next(it) : known.erase(it);
  }
  for (const auto& [rank, why] : frozen) {
    const bool told = known.count(rank) != 0;
    if (!told) known[rank] = {now(), why == kStopped ? patience_with_stopped() : limits_.frozen_seconds};
    const auto& [since, patience] = known[rank];
    if (!told)
      say(format("rank {} ({}) is frozen: {}{}", rank, place_of(rank), why,
                 patience > 0 ? format("; the job ends in {:.3g} s unless it goes on", patience) : ""));
    if (!state_->blame && patience > 0 && now() - since >= patience)
      blame(rank, {false, 1}, format("was frozen for {:.0f} s: {}", now() - since, why), false);
  }
}

// Whoever has come waits for the rest; how long is the ranks' own affair, but the launcher knows who is missing.
void Job::check_late() {
  if (!pulse_.seen || state_->late_told) return;
  const auto seen = pulse_.seen();
  if (seen.empty()) return;
  if (state_->first_came == 0) state_->first_came = now();
  if (now() - state_->first_came < limits_.late_seconds) return;
  state_->late_told = true;
  std::vector<int> late;
  for (int rank = 0; rank < static_cast<int>(state_->endings.size()); ++rank)
    if (!state_->endings[static_cast<size_t>(rank)] && std::find(seen.begin(), seen.end(), rank) == seen.end())
      late.push_back(rank);
  if (!late.empty())
    say(format("{} {} not come to the meeting, {:.0f} s after the first did", listed(late),
               late.size() == 1 ? "has" : "have", limits_.late_seconds));
}

void Job::check_neighbours() {
  if (state_->blame || !neighbours_.failure) return;
  if (const std::string why = neighbours_.failure(); !why.empty()) blame(kElsewhere, {false, 1}, why, false);
}

// Of what it printed last, the line that says why.
std::string Job::reason_of(int rank) const {
  const std::string words = output_.last_words(rank);
  const size_t begin = words.rfind("error: ");
  return begin == words.npos ? "" : ", " + words.substr(begin, words.find('\n', begin) - begin);
}

void Job::report() const {
  const auto& blame = *state_->blame;
  auto others = state_->followers;
  std::erase(others, blame.rank);
  std::sort(others.begin(), others.end());
  std::fflush(stdout);
  if (blame.rank == kElsewhere) return say("the job ended elsewhere: " + blame.why);
  say(format("rank {} of {} ({}) {}{}", blame.rank, state_->endings.size(), place_of(blame.rank), blame.why,
             others.empty() ? "" : format("; {} ended after it", listed(others))));
  if (blame.orderly) return;
  if (blame.ending.by_signal && blame.ending.number == SIGKILL)
    say("hint: the kernel kills what exhausts the memory; dmesg tells");
  say(output_.kept_text(blame.rank));
  std::string words = output_.last_words(blame.rank);
  if (output_.has_shown(words)) return;
  if (!words.empty() && !words.ends_with('\n')) words += '\n';
  std::fputs(words.c_str(), stderr);
}

std::string Job::place_of(int rank) const {
  for (const auto& machine : machines_)
    if (auto place = machine->place_of(rank); !place.empty()) return place;
  return "elsewhere";
}

void Job::signal_all(int number) {
  for (const auto& machine : machines_) machine->signal(number);
}

bool Job::all_ended() const {
  return std::all_of(machines_.begin(), machines_.end(), [](const auto& machine) { return machine->all_ended(); });
}

}  // namespace hyperion::resilience
