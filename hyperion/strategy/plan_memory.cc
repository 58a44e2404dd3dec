#include "hyperion/strategy/plan_memory.h"

namespace hyperion::strategy {
namespace {

double blocks_a_stage(const Plan& plan, int rank) {
  int64_t count = 0;
  for (const int64_t stage : plan.pipeline.stages_of(Mesh(plan.layout, rank).index(Axis::pp)))
    count += plan.first_blocks[static_cast<size_t>(stage) + 1] - plan.first_blocks[static_cast<size_t>(stage)];
  return static_cast<double>(count) / static_cast<double>(plan.pipeline.chunks);
}

// Of a block's 34 parts some 10, norms and residuals, lie whole on each process of tp unless the sequence is cut
// (Korthikanti et al., 2022). Where blocks run again their inputs are kept, and one block at a time.
double activations_of(const Plan& plan, const PlannedStep& step, const PlannedModel& model, const ModelShape& shape,
                      size_t rank) {
  const auto tp = static_cast<double>(step.layout.tp), kept = static_cast<double>(plan.kept[rank]);
  const int64_t length = step.length / step.layout.cp;
  const double whole = shape.activation_bytes(step.samples * (shape.context > 0 ? length : 1), step.element) *
                       (step.sequence_parallel ? 1 / tp : (10 + 24 / tp) / 34);
  const double blocks = blocks_a_stage(plan, static_cast<int>(rank)), all = static_cast<double>(model.blocks);
  if (!step.recompute || model.blocks == 0) return kept * whole * (model.blocks > 0 ? blocks / all : 1);
  const double input =
      static_cast<double>(step.samples * length * model.width * step.element) / (step.sequence_parallel ? tp : 1);
  return kept * input * blocks + whole / all;
}

}  // namespace

RankMemory memory_of(const Plan& plan, const PlannedStep& step, const PlannedModel& model, const ModelShape& shape,
                     int64_t optimizer_bytes, size_t rank) {
  const auto element = static_cast<double>(step.element);
  // Narrow gradients add up in fp32, and pieces of them are. Who shares the batch, or an expert, with nobody holds
  // those of a micro-batch beside their sum.
  const bool adds = step.micro_batches > 1;
  const auto gradient = [&](int64_t sharers) {
    return (adds || step.zero >= 2 ? 4 : element) + (adds && sharers == 1 && step.zero == 0 ? element : 0);
  };
  const int64_t sharers = step.layout.dp() * step.layout.cp, shards = step.layout.dp_shard * step.layout.cp;
  const auto part = [&](int64_t from_zero, int64_t among) {
    return step.zero >= from_zero ? 1 / static_cast<double>(among) : 1.0;
  };
  const auto of = [&](const std::vector<int64_t>& all, const std::vector<int64_t>& of_experts, int64_t from_zero,
                      double bytes, double expert_bytes) {
    const auto experts = static_cast<double>(of_experts[rank]), others = static_cast<double>(all[rank]) - experts;
    return bytes * others * part(from_zero, shards) + expert_bytes * experts * part(from_zero, shards / step.layout.ep);
  };
  const auto optimizer = static_cast<double>(optimizer_bytes);
  return {.weights = of(plan.parameters, plan.expert_parameters, 3, element, element),
          .gradients = of(plan.trained, plan.expert_trained, 2, gradient(sharers), gradient(sharers / step.layout.ep)),
          .optimizer = of(plan.trained, plan.expert_trained, 1, optimizer, optimizer),
          .gathered = element * static_cast<double>(plan.gathered[rank]) * (1 - part(3, shards)),
          .activations = activations_of(plan, step, model, shape, rank)};
}

}  // namespace hyperion::strategy
