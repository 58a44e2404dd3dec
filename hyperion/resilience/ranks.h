// The ranks of a job on one machine, this one or another, as the launcher sees them.
#pragma once
#include <poll.h>

#include <string>
#include <string_view>
#include <vector>

namespace hyperion::resilience {

enum class Stream { out, err };

struct Ending {
  bool by_signal = false;
  int number = 0;  // the exit code, or the signal

  bool failed() const { return by_signal || number != 0; }
  int exit_code() const { return by_signal ? 128 + number : number; }
  std::string text() const;  // "exit code 1", "signal 9 (Killed)"
};
Ending ending_of(int wait_status);

// What happens to ranks, told in order for each of them; nothing is told of a rank after it ended.
class RankEvents {
 public:
  virtual ~RankEvents() = default;
  virtual void output(int rank, Stream stream, std::string_view bytes) = 0;
  virtual void ended(int rank, Ending ending) = 0;
};

class Ranks {
 public:
  virtual ~Ranks() = default;  // no rank outlives it
  // What to wait for until `handle` has something to do; to be asked again after each `handle`.
  virtual std::vector<pollfd> descriptors() const = 0;
  virtual void handle(RankEvents& events) = 0;  // takes what is there; never waits
  virtual void signal(int number) = 0;          // to every rank that still runs, and to what it started
  virtual bool all_ended() const = 0;
  virtual std::vector<int> stopped() const = 0;      // ranks that a signal has stopped (SIGSTOP), as far as known
  virtual std::string place_of(int rank) const = 0;  // "process 4242", "node gpu07"; empty: not here
};

}  // namespace hyperion::resilience
