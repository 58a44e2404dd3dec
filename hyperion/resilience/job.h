// A job of several ranks: started, watched and ended as one. The first rank that fails ends the others; a request to
// stop goes to all of them, so that a training run can write its checkpoint.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hyperion/resilience/rank_output.h"
#include "hyperion/resilience/ranks.h"

namespace hyperion::resilience {

struct JobLimits {
  double kill_seconds = 3;      // from SIGTERM, after a failure, to SIGKILL
  double orderly_seconds = 30;  // for the others, once a rank left with 75 or 130 unasked
  double frozen_seconds = 30;   // a rank that is stopped or silent this long has failed; 0: for ever
  double late_seconds = 30;     // ranks that come this much later than the first are told of
};

// What the store knows of the ranks' heartbeats; empty functions where it is not asked.
struct Liveness {
  std::function<std::vector<int>()> seen;                  // ranks that ever beat
  std::function<std::vector<int>(double seconds)> silent;  // that are connected, but have not beaten for this long
  std::function<void(const std::string& why)> end = {};    // tells the ranks why the job is over
};

// The launchers of the same job's other machines; empty functions where this is the only one.
struct PeerLaunchers {
  std::function<std::string()> failure;          // what ended the job elsewhere; empty: nothing yet
  std::function<void(const std::string&)> tell;  // what ended it here
};

// Keeps SIGINT, SIGTERM, SIGUSR1, SIGHUP and SIGTSTP from their usual effect and hands them out one by one. Made before
// any thread is started, so that every thread holds them back too.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  int descriptor() const { return descriptor_; }
  int next();  // 0: none waits

 private:
  int descriptor_ = -1;
  int noted_ = 0;  // one that came before
};

// How a job ended.
struct JobEnd {
  int code = 0;         // its exit code
  bool failed = false;  // it is neither done, nor was it or one of its ranks stopped in good order
  std::string why;      // "rank 1 of 4 ended with signal 9 (Killed)"
  double seconds = 0;   // that it ran
};

struct JobSettings {
  int world;  // ranks, those of other launchers included
  JobLimits limits = {};
  Liveness pulse = {};
  PeerLaunchers neighbours = {};
  // What the slowest of a hundred of the job's steps takes, in seconds; 0 or an empty function: not known. A rank that
  // a signal has stopped is frozen after three of them, and 2 s at least.
  std::function<double()> slow_step = {};
  bool resumable = false;  // a training run: whom SIGTERM stops before it can answer has lost nothing
};

class Job final : public RankEvents {
 public:
  Job(std::vector<std::unique_ptr<Ranks>> machines, RankOutput& output, StopSignals& signals, JobSettings settings);
  ~Job() override;

  // Until no rank is left. The exit code is that of the first rank that failed, 1 where that was elsewhere, else 0.
  // Says on stderr what happened if anything did, the culprit's own words last, unless they were seen as rank 0's.
  int run();
  JobEnd end() const;  // after `run`

  void output(int rank, Stream stream, std::string_view bytes) override;
  void ended(int rank, Ending ending) override;

 private:
  struct State;
  void forward(int signal);
  void pause();
  void blame(int rank, Ending ending, const std::string& why, bool orderly);
  void check_deadlines();
  void check_frozen();
  double patience_with_stopped() const;  // seconds; 0: for ever
  void check_late();
  void check_neighbours();
  void report() const;
  std::string reason_of(int rank) const;
  std::string place_of(int rank) const;
  int exit_code() const;
  void signal_all(int number);
  bool all_ended() const;

  std::vector<std::unique_ptr<Ranks>> machines_;
  RankOutput& output_;
  StopSignals& signals_;
  JobLimits limits_;
  Liveness pulse_;
  PeerLaunchers neighbours_;
  std::function<double()> slow_step_;
  bool resumable_;
  std::unique_ptr<State> state_;
};

}  // namespace hyperion::resilience
