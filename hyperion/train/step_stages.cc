#include "hyperion/train/step_stages.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/words.h"
#include "hyperion/models/planned_model.h"
#include "hyperion/models/registry.h"
#include "hyperion/nn/meta.h"
#include "hyperion/nn/projection.h"
#include "hyperion/parallel/config.h"
#include "hyperion/parallel/trained_weights.h"
#include "hyperion/strategy/automatic_layout.h"
#include "hyperion/strategy/plan_check.h"
#include "hyperion/strategy/stage_work.h"

namespace hyperion::train {

using base::format;

namespace {

// Rows of a tensor, or columns, or of several parts of it.
at::Tensor held_of(const at::Tensor& whole, const strategy::Placement& placement) {
  if (placement.offset.empty()) return whole;
  std::vector<at::Tensor> boxes;
  for (int64_t part = 0; part < placement.parts; ++part) {
    at::Tensor box = whole;
    for (int64_t dim = 0; dim < whole.dim(); ++dim) {
      const auto i = static_cast<size_t>(dim);
      const int64_t apart = dim == placement.dim ? placement.whole[i] / placement.parts : 0;
      box = box.narrow(dim, placement.offset[i] + part * apart, placement.size[i]);
    }
    boxes.push_back(box);
  }
  return (boxes.size() == 1 ? boxes[0] : at::cat(boxes, placement.dim)).contiguous();
}

std::vector<int64_t> held_shape(const strategy::Placement& placement) {
  if (placement.offset.empty()) return placement.whole;
  auto shape = placement.size;
  shape[static_cast<size_t>(placement.dim)] *= placement.parts;
  return shape;
}

void check_shards(models::Model& model, const RunConfig& config, const strategy::Layout& layout) {
  const auto refuse = [&](const std::string& what, const std::string& instead) {
    throw base::ConfigError(format("parallel.layout = \"{}\" {}", config.parallel.layout, what), instead);
  };
  const auto rules = model.cuts();
  const bool can_be_cut = std::any_of(rules.begin(), rules.end(), [](const strategy::CutRule& rule) {
    return rule.cut.kind != strategy::CutKind::none && rule.cut.kind != strategy::CutKind::row_bias;
  });
  if (!can_be_cut)
    refuse("cuts layers, and this model's cannot be: it is data parallel only",
           format("use dp={}", layout.processes()));
  if (config.parallel.sequence && model.input() == models::Input::tokens && config.train.length % layout.tp != 0)
    refuse(format("does not divide the {} tokens of a sample, which parallel.sequence cuts", config.train.length),
           format("choose train.length = {}, which {} divides, or leave parallel.sequence out",
                  std::max(config.train.length / layout.tp, int64_t{1}) * layout.tp, layout.tp));
  if (config.parallel.sequence && model.input() == models::Input::images)
    if (const int64_t tokens = models::planned_model(model, config.train.length).image_tokens; tokens % layout.tp != 0)
      refuse(format("does not divide the {} patches of an image, which parallel.sequence cuts", tokens),
             "leave parallel.sequence out");
  for (const auto& parameter : model.parameters())
    if (parameter.name.find(".token_adapter.") != parameter.name.npos)
      refuse("cuts tables, and of this one some tokens are trained by themselves, which cannot be had together yet",
             "use pp and dp alone, or train the whole table: lora.modules_to_save");
}

void check_tokens(models::Model& model, const RunConfig& config, const strategy::Layout& layout) {
  strategy::check_context(layout, config.parallel.context, config.train.length, model.mixing());
  if (config.parallel.sequence && layout.tp > 1)
    strategy::check_sequence_in_context(layout, config.parallel.context, config.train.length);
}

void check_experts(models::Model& model, const RunConfig& config, const strategy::Layout& layout) {
  const auto refuse = [&](const std::string& what, const std::string& instead) {
    throw base::ConfigError(format("parallel.layout = \"{}\" {}", config.parallel.layout, what), instead);
  };
  strategy::check_experts(layout, model.cuts());
  strategy::Layout other = layout;
  other.ep = 1;
  if (config.lora.dropout > 0 && config.lora.rank > 0)
    refuse("cannot be had with lora.dropout yet, as rows of experts lie on other processes than alone",
           format("set lora.dropout = 0, or use {}", other.text()));
}

}  // namespace

StepStages::StepStages(models::Model& model, const RunConfig& config, const strategy::Mesh& mesh)
    : pipeline_{config.parallel.schedule, mesh.size(strategy::Axis::pp), 1, config.train.accumulate},
      index_(mesh.index(strategy::Axis::pp)),
      shards_(mesh.size(strategy::Axis::tp)),
      shard_(mesh.index(strategy::Axis::tp)),
      by_sequence_(config.parallel.sequence && shards_ > 1),
      expert_peers_(mesh.layout().ep),
      expert_index_(mesh.expert_index()),
      stages_{{.begin = 0, .end = 0, .first = true, .last = true}} {
  if (shards_ * expert_peers_ > 1) rules_ = model.cuts();
  if (shards_ > 1) check_shards(model, config, mesh.layout());
  if (mesh.size(strategy::Axis::cp) > 1) check_tokens(model, config, mesh.layout());
  if (expert_peers_ > 1) check_experts(model, config, mesh.layout());
  if (pipeline_.ranks == 1) {
    if (splits_backward()) pipeline_.schedule = strategy::PipelineSchedule::one_forward_one_backward;  // nobody waits
    return;
  }
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

// Short batches may have fewer parts than the schedule wants: then it is another with the same stages.
strategy::Plan StepStages::plan(int64_t micro_batches) const {
  using strategy::PipelineSchedule;
  const bool uneven = pipeline_.schedule == PipelineSchedule::interleaved && micro_batches % pipeline_.ranks != 0;
  const bool few = pipeline_.schedule == PipelineSchedule::dualpipe_v && micro_batches < 2 * pipeline_.ranks;
  const bool asked = micro_batches == pipeline_.micro_batches;
  return strategy::make_plan({.blocks = planned_.blocks, .width = planned_.width, .costs = planned_.costs},
                             {.layout = {.pp = pipeline_.ranks},
                              .schedule = asked    ? pipeline_.schedule
                                          : uneven ? PipelineSchedule::gpipe
                                          : few    ? PipelineSchedule::zb_v
                                                   : pipeline_.schedule,
                              .chunks = pipeline_.chunks,
                              .micro_batches = micro_batches});
}

std::vector<int64_t> StepStages::hidden_shape(const at::Tensor& inputs, bool training) const {
  const int64_t length = planned_.image_tokens > 0 ? planned_.image_tokens : inputs.size(1);
  return {inputs.size(0), training && by_sequence_ ? length / shards_ : length, planned_.width};
}

bool StepStages::owns_expert(const std::string& parameter) const {
  if (expert_peers_ == 1) return true;
  const auto found = strategy::cut_of(rules_, parameter);
  return found.experts == 0 || strategy::holds_expert(found.expert, found.experts, expert_peers_, expert_index_);
}

bool StepStages::spreads(const std::string& parameter) const {
  return expert_peers_ > 1 && strategy::cut_of(rules_, parameter).experts > 0;
}

bool StepStages::owns(const std::string& parameter) const {
  if (!owns_expert(parameter)) return false;
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

parallel::StagedWeights StepStages::weights() const {
  parallel::StagedWeights staged{.tied = planned_.tied};
  staged.spreads = [this](const std::string& weight) { return spreads(weight); };
  for (const auto& tensor : planned_.tensors)
    if (tensor.trained) staged.trained.push_back(tensor.name);
  return staged;
}

// What all hold sees, by sequence, other tokens on each.
void StepStages::cut(nn::Parameter& parameter) {
  const auto how = strategy::cut_of(rules_, parameter.name).cut;
  auto& tensor = parameter.tensor;
  parameter.placement = strategy::placement_of(how, parameter.name, tensor.sizes().vec(), shards_, shard_);
  const bool whole = how.kind == strategy::CutKind::none || how.kind == strategy::CutKind::row_bias;
  parameter.placement.expert = spreads(parameter.name);
  if (how.copies == strategy::Copies::partial || (whole && by_sequence_))
    parameter.summed = strategy::sharers_of(how, shards_, shard_).count;
  if (!parameter.placement.cut()) return;
  placements_[parameter.name] = parameter.placement;
  tensor.set_data(nn::is_materialized(tensor) ? held_of(tensor.detach(), parameter.placement)
                                              : nn::meta_tensor(held_shape(parameter.placement), tensor.options()));
}

// Weights in 4 bits are no parameters.
void StepStages::cut_packed(models::Model& model) const {
  model.tree()->visit([&](const std::string& path, nn::Module& module) {
    auto* projection = dynamic_cast<nn::Projection*>(&module);
    if (projection == nullptr || projection->packed().empty()) return;
    const std::string name = path + ".weight";
    const auto& shape = projection->nf4()->shape;
    const auto placement = strategy::placement_of(strategy::cut_of(rules_, name).cut, name, shape, shards_, shard_);
    if (!placement.cut()) return;
    const auto held = held_shape(placement);
    std::vector<kernels::Nf4Stretch> stretches;
    for (const auto& run : strategy::runs_of(placement, c10::multiply_integers(held)))
      stretches.push_back({run.whole, run.count});
    if (!kernels::nf4_parts_at(stretches))
      throw base::ConfigError(
          format("{} in 4 bits cannot be cut among {} processes: 64 elements share a scale, and would lie on two", name,
                 shards_),
          "use a smaller tp, or model.quantize = none");
    projection->keep_packed(stretches, held);
  });
}

// Weights in 4 bits of other stages, and of experts that others hold.
void StepStages::leave_others_packed(models::Model& model) const {
  model.tree()->visit([&](const std::string& path, nn::Module& module) {
    auto* projection = dynamic_cast<nn::Projection*>(&module);
    if (projection == nullptr || !projection->nf4()) return;
    const auto numbers = own();
    const auto block = models::block_of(path);
    const bool here = whole() || std::any_of(numbers.begin(), numbers.end(), [&](int64_t number) {
                        return block >= stage(number).begin && block < stage(number).end;
                      });
    if (!here || !owns_expert(path + ".weight")) projection->leave_packed();
  });
}

models::Values StepStages::values_of_shards(const models::Values& values) const {
  if (!values || shards_ == 1) return values;
  return [this, values](const std::string& name, int64_t begin, const at::Tensor& out) {
    const auto found = placements_.find(name);
    if (found == placements_.end()) return values(name, begin, out);
    auto placement = found->second;
    placement.begin = begin;
    for (const auto& run : strategy::runs_of(placement, out.numel()))
      values(name, run.whole, out.narrow(0, run.held, run.count));
  };
}

std::vector<nn::Parameter> StepStages::take_own(models::Model& model, const models::Values& values, bool pieces) {
  const at::NoGradGuard no_grad;
  auto parameters = model.parameters();
  if (whole() && rules_.empty()) return parameters;
  if (model.tree() != nullptr) leave_others_packed(model);
  if (shards_ > 1 && model.tree() != nullptr) cut_packed(model);
  const auto own_values = values_of_shards(values);
  std::vector<nn::Parameter> list;
  for (auto& parameter : parameters) {
    auto& tensor = parameter.tensor;
    const bool there = nn::is_materialized(tensor);
    if (!owns(parameter.name)) {
      if (there) tensor.set_data(nn::meta_tensor(tensor.sizes(), tensor.options()));
      continue;
    }
    if (!rules_.empty()) cut(parameter);
    if (parameter.name == planned_.tied && !is_first()) parameter.placement.again = true;
    if (!there && !pieces) {
      HYPERION_CHECK(values != nullptr, "nothing tells the values of " + parameter.name);
      const auto given = at::empty(tensor.sizes(), at::kFloat);
      own_values(parameter.name, 0, given.view(-1));
      tensor.set_data(given.to(tensor.options().requires_grad(false)));
    }
    list.push_back(std::move(parameter));
  }
  return list;
}

std::vector<strategy::Instruction> StepStages::list(const Batch& batch, int64_t parts) const {
  auto list = std::move(plan(parts).ranks[static_cast<size_t>(index_)]);
  if (whole()) return list;
  auto shape = hidden_shape(batch.inputs, /*training=*/true);
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

void check_layout(const RunConfig& config, const std::string& model_config, int64_t processes) {
  const strategy::Mesh mesh(parallel::layout_of(config.parallel, processes), 0);
  if (mesh.size(strategy::Axis::pp | strategy::Axis::tp | strategy::Axis::cp) * mesh.layout().ep == 1) return;
  const nn::MetaScope only_names;
  const auto model = models::make_model(model_config, "the model");
  const StepStages stages(*model, config, mesh);
  const int64_t shards = mesh.size(strategy::Axis::tp);
  if (shards == 1) return;
  const auto rules = model->cuts();
  for (const auto& parameter : model->parameters())
    strategy::placement_of(strategy::cut_of(rules, parameter.name).cut, parameter.name, parameter.tensor.sizes().vec(),
                           shards, 0);
}

void settle_layout(RunConfig& config, const std::string& model_config, int64_t processes) {
  if (config.parallel.layout != "auto") return;
  strategy::LayoutHints hints;
  {
    const nn::MetaScope only_names;
    const auto model = models::make_model(model_config, "the model");
    hints.experts = model->experts().experts;
    if (model->input() == models::Input::tokens) hints.tokens = config.train.length;
  }
  for (const auto& layout : strategy::automatic_layouts(processes, hints)) {
    config.parallel.layout = layout.text();
    try {
      check_processes(config, processes);
      check_layout(config, model_config, processes);
      return;
    } catch (const base::ConfigError&) {  // the last of them stays, whose checks will say what is wrong
    }
  }
}

}  // namespace hyperion::train
