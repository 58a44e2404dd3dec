// Schedules that make the gradients of weights when there would be nothing else to do. zb-h1 (Qi et al., "Zero Bubble
// Pipeline Parallelism", 2024) keeps as many micro-batches as 1f1b and waits for a third of its time. zbv (the same,
// "Pipeline Parallelism with Controllable Memory", 2024) lays two stages a rank in a V, keeps as much and waits for a
// sixth; dualpipev (DeepSeek's DualPipe, cut in half by Qi et al., 2025) is the same V with a backward of one half and
// a forward of the other in turns, which a rank's devices may overlap, and keeps one micro-batch of a stage more.
#pragma once
#include "hyperion/strategy/pipeline.h"

namespace hyperion::strategy {

// Of each rank; of pipelines that `check` takes.
std::vector<RankWork> zero_bubble_work(const Pipeline& pipeline);

// The part of the time in which ranks wait where a forward takes as long as either half of a backward: of zb-h1 that is
// (p - 1) / (3m + p - 1) of p ranks and m >= p micro-batches, of the others (p - 1) / (6m + p - 1).
double zero_bubble_bubble(const Pipeline& pipeline);

}  // namespace hyperion::strategy
