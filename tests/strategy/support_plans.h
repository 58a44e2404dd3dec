// Models and steps for tests of plans.
#pragma once
#include <random>

#include "hyperion/base/format.h"
#include "hyperion/strategy/plan.h"

namespace hyperion::strategy {

struct ModelOfTest {
  int64_t blocks = 4, width = 32, heads = 4, key_value_heads = 2, vocabulary = 100;
  bool tied = false;
  int64_t experts = 0;
};

// A decoder as Llama is one.
inline PlannedModel planned_model(const ModelOfTest& sizes) {
  const auto [blocks, width, heads, key_value_heads, vocabulary, tied, experts] = sizes;
  const int64_t narrow = width / heads * key_value_heads;
  PlannedModel model{.blocks = blocks, .width = width, .tied = tied ? "embed.weight" : ""};
  model.tensors = {{"embed.weight", {vocabulary, width}, -1}};
  for (int64_t i = 0; i < blocks; ++i)
    for (const auto& [name, shape] :
         std::vector<std::pair<std::string, std::vector<int64_t>>>{{"norm.weight", {width}},
                                                                   {"q.weight", {width, width}},
                                                                   {"k.weight", {narrow, width}},
                                                                   {"o.weight", {width, width}},
                                                                   {"up.weight", {4 * width, width}},
                                                                   {"down.weight", {width, 4 * width}}})
      model.tensors.push_back({base::format("layers.{}.{}", i, name), shape, i});
  model.tensors.push_back({"norm.weight", {width}, blocks});
  if (!tied) model.tensors.push_back({"head.weight", {vocabulary, width}, blocks});
  model.cuts = {{"embed.weight", {CutKind::vocabulary}},
                {"layers.#.norm.weight", {}},
                {"layers.#.q.weight", {CutKind::heads, 0, heads}},
                {"layers.#.k.weight", {CutKind::key_value_heads, 0, key_value_heads, {}, Copies::partial}},
                {"layers.#.o.weight", {CutKind::row, 1, heads}},
                {"layers.#.up.weight", {CutKind::column}},
                {"layers.#.down.weight", {CutKind::row, 1}},
                {"norm.weight", {}},
                {"head.weight", {CutKind::vocabulary}}};
  model.mixing = {heads, key_value_heads, width / heads};
  if (experts > 0) {
    for (int64_t i = 0; i < blocks; ++i)
      for (int64_t k = 0; k < experts; ++k)
        model.tensors.push_back({base::format("layers.{}.experts.{}.weight", i, k), {width, 8}, i});
    model.cuts.push_back({"layers.#.experts.#.weight", {CutKind::column}, experts});
    model.experts = {.experts = experts, .choices = 2};
  }
  model.costs = {.first = 0, .blocks = std::vector<double>(static_cast<size_t>(blocks), 1), .last = 0.5};
  return model;
}

struct RandomPlan {
  PlannedModel model;
  PlannedStep step;
};

// Of up to 96 ranks and all axes, and always one that is possible.
inline RandomPlan random_plan(std::mt19937& random) {
  const auto one_of = [&](std::initializer_list<int64_t> values) {
    return *(values.begin() + random() % values.size());
  };
  PlannedStep step{.layout = {.pp = one_of({1, 2, 3, 4}),
                              .dp_replicate = one_of({1, 1, 2}),
                              .dp_shard = one_of({1, 2, 3}),
                              .cp = one_of({1, 1, 2, 4}),
                              .tp = one_of({1, 2, 4})}};
  auto& layout = step.layout;
  if (layout.processes() > 96) layout.tp = 1;
  const int64_t experts = one_of({0, 4});
  const int64_t ep = one_of({1, 2, 4});
  if (experts > 0 && layout.dp_replicate == 1 && layout.dp_shard * layout.cp % ep == 0) layout.ep = ep;
  constexpr int64_t kHeads = 4;
  if (kHeads / layout.tp % layout.cp == 0 && random() % 2 == 0) step.context = ContextMethod::ulysses;
  step.schedule = static_cast<PipelineSchedule>(random() % words_of(PipelineSchedule{}).size());
  const bool interleaved = step.schedule == PipelineSchedule::interleaved;
  const bool many = step.schedule == PipelineSchedule::dualpipe_v;
  step.chunks = interleaved ? one_of({1, 2, 3}) : usual_chunks(step.schedule);
  step.micro_batches = interleaved ? step.layout.pp * one_of({1, 2, 3}) : one_of({1, 2, 3, 5, 8});
  if (many) step.micro_batches = 2 * step.layout.pp + one_of({0, 1, 3});
  step.samples = one_of({1, 2}), step.length = 32;
  step.zero = splits_backward(step.schedule) ? one_of({0, 1}) : one_of({0, 1, 2, 3});
  step.sequence_parallel = random() % 2 == 0, step.recompute = random() % 2 == 0;
  step.element = one_of({2, 4});
  const int64_t blocks = step.layout.pp * step.chunks + static_cast<int64_t>(random() % 4);
  auto model = planned_model(
      {.blocks = blocks, .key_value_heads = one_of({1, 2, 4}), .tied = random() % 2 == 0, .experts = experts});
  if (layout.cp == 1) model.experts.capacity = static_cast<double>(one_of({0, 1}));
  return {std::move(model), step};
}

}  // namespace hyperion::strategy
