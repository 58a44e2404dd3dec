// The ranks of a job that is tried: met, and each collective verified and timed over all of them.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hyperion/comm/world.h"
#include "hyperion/doctor/collectives.h"
#include "hyperion/profile/timing.h"

namespace hyperion::doctor {

// The ranks of this job, met, with wires as a training run would have them.
struct CommJob {
  // `device`: "cpu", "cuda" or "auto". Every rank calls it. Throws as World::join.
  CommJob(const std::string& device, double timeout_seconds);

  std::unique_ptr<comm::World> world;
  std::unique_ptr<comm::Group> group, control;  // what is measured; agreements over host memory
  c10::Device device;
  std::vector<std::string> hosts;  // by rank

  int ranks() const { return world->size(); }
  bool first() const { return world->first(); }
  std::string text() const;                                       // "4 ranks on 2 hosts over gloo, CPU"
  double slowest(double seconds);                                 // of all ranks'; each calls it
  std::vector<std::string> told_by_all(const std::string& text);  // by rank; each calls it
};

std::string host_name();  // of this machine

// "8", "64KiB", "1M". Throws ConfigError.
int64_t message_size(const std::string& text);
// Throws ConfigError where a size is not for these ranks or their memory.
void check_sizes(const std::vector<int64_t>& sizes, int local_ranks);

struct CollectiveRow {
  std::string name;
  int64_t bytes = 0;
  profile::Spread seconds;                      // of a call, on the slowest rank
  std::map<int, std::map<int, int64_t>> wrong;  // rank -> where from -> numbers

  int64_t all_wrong() const;
  double algorithm_bandwidth() const;  // bytes a second; 0 for a barrier
  double bus_bandwidth(int ranks) const;
};

// Each collective at each size: verified once on random numbers, then timed, then looked at again. The same rows on all
// ranks. `begin` is called before each case.
std::vector<CollectiveRow> measure_collectives(CommJob& job, const std::vector<std::string>& names,
                                               const std::vector<int64_t>& sizes, double seconds,
                                               const std::function<void(const std::string& what)>& begin);

// Shows where a measurement stands: a line on a terminal, elsewhere a log line every two seconds. Of rank 0 only.
class CommProgress {
 public:
  CommProgress(const CommJob& job, std::string what);
  ~CommProgress();
  void show(const std::string& text);
  void clear();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Lines for what arrived wrong: "all_gather of 64.0 KiB: rank 2 has 1 wrong number from rank 0".
std::vector<std::string> wrong_texts(const std::vector<CollectiveRow>& rows, int ranks);

}  // namespace hyperion::doctor
