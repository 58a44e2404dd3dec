// A pipeline carried out by real processes over their real links, with work of a known length in place of a model: what
// the schedule and the links are worth, and whether a plan's bubble is what comes out.
#pragma once
#include "hyperion/parallel/pipeline_runner.h"

namespace hyperion::parallel {

struct TrialWork {
  double forward = 0.02, backward = 0.04;  // seconds, of a stage; of the latter half where it is made in two
  bool computes = false;                   // matrix products on one thread; else sleep
};

// One step of this rank's list. Times are seconds since all ranks began together; of forwards and backwards, in the
// order of the list.
std::vector<strategy::TimedWork> run_trial(const std::vector<strategy::Instruction>& list, const TrialWork& work,
                                           const PipelineLinks& links, comm::Group& all);

}  // namespace hyperion::parallel
