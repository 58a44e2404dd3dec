#include "hyperion/train/step_stages.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/words.h"
#include "hyperion/models/planned_model.h"
#include "hyperion/nn/meta.h"
#include "hyperion/parallel/processes.h"
#include "hyperion/strategy/plan_check.h"

namespace hyperion::train {

using base::format;

StepStages::StepStages(models::Model& model, const RunConfig& config, const parallel::Processes& processes)
    : pipeline_{config.parallel.schedule, processes.mesh().size(strategy::Axis::pp), 1, config.train.accumulate},
      index_(processes.stage()),
      stages_{{.begin = 0, .end = 0, .first = true, .last = true}} {
  if (pipeline_.ranks == 1) return;
  pipeline_.chunks = config.parallel.stages();
  planned_ = models::planned_model(model, config.train.length);
  const auto planned = plan(pipeline_.micro_batches);
  strategy::check(planned);
  beside_ = model.parts()->beside_size();
  stages_.clear();
  for (int64_t i = 0; i < pipeline_.stages(); ++i)
    stages_.push_back({planned.first_blocks[static_cast<size_t>(i)], planned.first_blocks[static_cast<size_t>(i) + 1],
                       i == 0, i == pipeline_.stages() - 1});
}

// Short batches may have fewer parts than the schedule wants at a time: then all go forward before any goes back.
strategy::Plan StepStages::plan(int64_t micro_batches) const {
  const bool uneven =
      pipeline_.schedule == strategy::PipelineSchedule::interleaved && micro_batches % pipeline_.ranks != 0;
  const bool asked = micro_batches == pipeline_.micro_batches;
  return strategy::make_plan({.blocks = planned_.blocks, .width = planned_.width, .costs = planned_.costs},
                             {.layout = {.pp = pipeline_.ranks},
                              .schedule = uneven && !asked ? strategy::PipelineSchedule::gpipe : pipeline_.schedule,
                              .chunks = pipeline_.chunks,
                              .micro_batches = micro_batches});
}

std::vector<int64_t> StepStages::own() const {
  std::vector<int64_t> numbers;
  for (int64_t number = index_; number < std::ssize(stages_); number += pipeline_.ranks) numbers.push_back(number);
  return numbers;
}

std::vector<int64_t> StepStages::hidden_shape(const at::Tensor& inputs) const {
  return {inputs.size(0), planned_.image_tokens > 0 ? planned_.image_tokens : inputs.size(1), planned_.width};
}

bool StepStages::owns(const std::string& parameter) const {
  if (whole()) return true;
  if (parameter == planned_.tied) return is_first() || is_last();
  const auto found = std::find_if(planned_.tensors.begin(), planned_.tensors.end(),
                                  [&](const auto& tensor) { return tensor.name == parameter; });
  HYPERION_CHECK(found != planned_.tensors.end(), "a parameter is of the model");
  const auto numbers = own();
  return std::any_of(numbers.begin(), numbers.end(), [&](int64_t number) {
    const auto& here = stage(number);
    return (found->block >= here.begin && found->block < here.end) || (here.first && found->block < 0) ||
           (here.last && found->block == planned_.blocks);
  });
}

std::vector<nn::Parameter> StepStages::take_own(models::Model& model, const models::Values& values, bool pieces) const {
  const at::NoGradGuard no_grad;
  auto parameters = model.parameters();
  if (whole()) return parameters;
  std::vector<nn::Parameter> list;
  for (auto& parameter : parameters) {
    auto& tensor = parameter.tensor;
    const bool there = nn::is_materialized(tensor);
    if (!owns(parameter.name)) {
      if (there) tensor.set_data(nn::meta_tensor(tensor.sizes(), tensor.options()));
      continue;
    }
    if (!there && !pieces) {
      HYPERION_CHECK(values != nullptr, "nothing tells the values of " + parameter.name);
      const auto given = at::empty(tensor.sizes(), at::kFloat);
      values(parameter.name, 0, given.view(-1));
      tensor.set_data(given.to(tensor.options().requires_grad(false)));
    }
    list.push_back(std::move(parameter));
  }
  return list;
}

std::vector<strategy::Instruction> StepStages::list(const Batch& batch, int64_t parts) const {
  auto list = std::move(plan(parts).ranks[static_cast<size_t>(index_)]);
  if (whole()) return list;
  auto shape = hidden_shape(batch.inputs);
  for (auto& instruction : list) {
    if (instruction.does != strategy::Does::send && instruction.does != strategy::Does::receive) continue;
    shape[0] = batch.rows_of_part(instruction.micro_batch, parts);
    instruction.shape = shape;
  }
  return list;
}

std::string StepStages::text() const {
  if (whole()) return {};
  std::string blocks;
  for (size_t i = 0; i < stages_.size(); ++i)
    blocks += format("{}{}", i == 0 ? "" : i + 1 == stages_.size() ? " and " : ", ", stages_[i].end - stages_[i].begin);
  return format(
      "{} stages of {} blocks, {} over {} micro-batch{}: {:.0f}% of a step is spent waiting, where stages take as long",
      stages_.size(), blocks, base::word_of(pipeline_.schedule), pipeline_.micro_batches,
      pipeline_.micro_batches == 1 ? "" : "es (train.accumulate)", 100 * strategy::bubble_of(pipeline_));
}

}  // namespace hyperion::train
