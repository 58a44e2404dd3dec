// A plan gone through with a clock and nothing else: all ranks at once, each its list, waiting for each other as the
// processes of a run would. A send is on its way while its rank goes on; a receive waits for it; a collective begins
// when the last of its group is there.
#pragma once
#include <functional>
#include <optional>

#include "hyperion/strategy/plan.h"

namespace hyperion::strategy {

// What is wrong, and where: the place in the rank's list.
struct PlanDefect {
  int rank;
  size_t instruction;
  std::string what;
};

struct TimedInstruction {
  double begin, end;  // a receive and a collective begin when they begin to wait
};

struct PlanWalk {
  std::vector<std::vector<TimedInstruction>> times;  // of each rank's instructions
  std::optional<PlanDefect> defect;                  // that it stopped at
  double end = 0;                                    // when the last rank was done
  // The part of the time in which a rank computed neither forward nor backward.
  double idle(const Plan& plan, int rank) const;
  double bubble(const Plan& plan) const;  // of all ranks
};

// Seconds of an instruction on a rank: of a send, until it arrives; of a collective, once all are there.
using PlanClock = std::function<double(int rank, const Instruction&)>;
PlanWalk walk(const Plan& plan, const PlanClock& clock);

// What a process computed when, by its place in the process's list.
struct TimedWork {
  size_t instruction;
  double begin, end;
};
// A step as processes carried it out and told it, each its forwards and backwards; it begins with the first of them.
PlanWalk walk_of(const Plan& plan, const std::vector<std::vector<TimedWork>>& ranks);
// The same step where every forward took as long as one did in the mean, every backward likewise, and nothing else
// took any time: what the schedule alone costs.
PlanWalk ideal_walk(const Plan& plan, const PlanWalk& ran);

}  // namespace hyperion::strategy
