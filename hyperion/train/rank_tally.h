// What this process sends and waits for in the steps of a run, and in nothing beside them: validations and checkpoints
// do not count, nor do a process's first two steps where others follow.
#pragma once
#include <map>
#include <string>

#include "hyperion/base/files.h"
#include "hyperion/comm/traffic.h"
#include "hyperion/report/rank_records.h"
#include "hyperion/train/memory.h"

namespace hyperion::parallel {
class Processes;
}

namespace hyperion::train {

class RankTally {
 public:
  explicit RankTally(parallel::Processes& processes) : processes_(processes) {}

  bool warmed_up() const { return record_.steps == 2 && !warm_; }  // to be begun anew
  void begin_anew();                                               // while it is paused
  void resume();                                                   // before a step; nothing where it counts already
  void pause();                                                    // where nothing of a step is under way; likewise
  void add_step(double seconds) { ++record_.steps, record_.seconds += seconds; }

  // Every process calls it, while it is paused; the first writes ranks.json. Nothing is written where no step was
  // counted.
  void write(base::FileSystem& files, const base::Path& run, const MemoryReport& held);

 private:
  parallel::Processes& processes_;
  report::RankRecord record_;
  std::map<std::string, comm::Traffic> before_;
  bool counts_ = false, warm_ = false;
};

}  // namespace hyperion::train
