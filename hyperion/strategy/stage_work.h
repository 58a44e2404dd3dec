// Which of its stages' micro-batches each rank of a pipeline runs when, and what that costs.
#pragma once
#include "hyperion/strategy/pipeline.h"

namespace hyperion::strategy {

// All work of each rank, in its order: each of its stages runs each micro-batch forward once and backward once after
// it. The backwards of a stage are in the order of the micro-batches: gradients are summed as one process sums them.
std::vector<RankWork> work_of(const Pipeline& pipeline);

// The most micro-batches whose forward was, and whose backward was not yet to its end, counted for each stage of the
// rank.
int64_t most_kept(const RankWork& work);

// The part of a step's time in which a process waits, where all stages take as long, a backward twice as long as a
// forward, each half of it as long as one, and nothing else takes any.
double bubble_of(const Pipeline& pipeline);

}  // namespace hyperion::strategy
