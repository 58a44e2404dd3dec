#include "hyperion/strategy/plan_memory.h"

namespace hyperion::strategy {
namespace {

double blocks_a_stage(const Plan& plan, int rank) {
  int64_t count = 0;
  for (int64_t stage = Mesh(plan.layout, rank).index(Axis::pp); stage < plan.pipeline.stages();
       stage += plan.pipeline.ranks)
    count += plan.first_blocks[static_cast<size_t>(stage) + 1] - plan.first_blocks[static_cast<size_t>(stage)];
  return static_cast<double>(count) / static_cast<double>(plan.pipeline.chunks);
}

// Of a block's 34 parts some 10, norms and residuals, lie whole on each process of tp unless the sequence is cut
// (Korthikanti et al., 2022). Where blocks run again their inputs are kept, and one block at a time.
double activations_of(const Plan& plan, const PlannedStep& step, const PlannedModel& model, const ModelShape& shape,
                      size_t rank) {
  const auto tp = static_cast<double>(step.layout.tp), kept = static_cast<double>(plan.kept[rank]);
  const double whole = shape.activation_bytes(step.samples * (shape.context > 0 ? step.length : 1), step.element) *
                       (step.sequence_parallel ? 1 / tp : (10 + 24 / tp) / 34);
  const double blocks = blocks_a_stage(plan, static_cast<int>(rank)), all = static_cast<double>(model.blocks);
  if (!step.recompute || model.blocks == 0) return kept * whole * (model.blocks > 0 ? blocks / all : 1);
  const double input =
      static_cast<double>(step.samples * step.length * model.width * step.element) / (step.sequence_parallel ? tp : 1);
  return kept * input * blocks + whole / all;
}

}  // namespace

RankMemory memory_of(const Plan& plan, const PlannedStep& step, const PlannedModel& model, const ModelShape& shape,
                     int64_t optimizer_bytes, size_t rank) {
  const auto part = [&](int64_t from_zero) {
    return step.zero >= from_zero ? 1 / static_cast<double>(step.layout.dp_shard) : 1.0;
  };
  const auto element = static_cast<double>(step.element), trained = static_cast<double>(plan.trained[rank]);
  // Narrow gradients add up in fp32, and pieces of them are. Who shares the batch with nobody holds those of a
  // micro-batch beside their sum.
  const bool adds = step.micro_batches > 1, alone = step.layout.dp() == 1 && step.zero == 0;
  const double gradient = (adds || step.zero >= 2 ? 4 : element) + (adds && alone ? element : 0);
  return {.weights = element * static_cast<double>(plan.parameters[rank]) * part(3),
          .gradients = gradient * trained * part(2),
          .optimizer = static_cast<double>(optimizer_bytes) * trained * part(1),
          .gathered = element * static_cast<double>(plan.gathered[rank]) * (1 - part(3)),
          .activations = activations_of(plan, step, model, shape, rank)};
}

}  // namespace hyperion::strategy
