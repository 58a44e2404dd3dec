// What each process of a plan holds, in bytes: the formulas of docs/parallel.md.
#pragma once
#include "hyperion/strategy/model_shape.h"
#include "hyperion/strategy/plan.h"

namespace hyperion::strategy {

struct RankMemory {
  double weights, gradients, optimizer;  // between steps; gradients until the update
  double gathered;                       // weights that zero 3 has whole at once besides
  double activations;                    // a model of them
};

// `optimizer_bytes`: of its state, a trained parameter: moments, and masters of narrow weights.
RankMemory memory_of(const Plan& plan, const PlannedStep& step, const PlannedModel& model, const ModelShape& shape,
                     int64_t optimizer_bytes, size_t rank);

}  // namespace hyperion::strategy
