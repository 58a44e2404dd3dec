#include "hyperion/train/stepper.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/signals.h"
#include "hyperion/blocks/later_gradients.h"
#include "hyperion/device/device.h"
#include "hyperion/device/tuning_cache.h"
#include "hyperion/kernels/part_sums.h"
#include "hyperion/nn/meta.h"
#include "hyperion/parallel/batch_statistics.h"
#include "hyperion/parallel/pipeline_runner.h"
#include "hyperion/parallel/processes.h"
#include "hyperion/parallel/trained_weights.h"
#include "hyperion/profile/span.h"
#include "hyperion/train/fused_blocks.h"

// Why a step looks as it does, alone or on many processes.
//
// The batch is cut twice: over the processes, and here into `train.accumulate` micro-batches. A mean over parts of
// unequal weight is not the mean over the batch, so each part's loss is weighted by what it counts of the whole
// (`share_of`), which takes one agreement of all processes before the first forward; the same message carries the
// hashes of what each has read and the wish to stop, so that a step costs one small exchange of the host's. Then
// gradients simply add up, over micro-batches and over processes, and the result is that of one process.
//
// What is computed when is a list (`stages_`, of strategy/plan.h): forwards and backwards of micro-batches, and where
// the model's stages lie on several processes what passes between them. One process alone is a pipeline of one.
//
// The step knows neither ZeRO nor wires: `weights_` (parallel/trained_weights.h) is told where passes begin and end,
// and gives back gradients that may be whole or pieces. Nothing here waits for a GPU: norm, clipping and the loss scale
// of a recorded step stay on the device, and figures are read a step later. Only fp16 without a graph asks the device
// once.
namespace hyperion::train {

using profile::Phase;

Stepper::Stepper(models::Model& model, const RunConfig& config, at::Device device, LossFunction loss,
                 parallel::Processes* processes, const models::Values& values)
    : model_(model),
      config_(config),
      device_(device),
      type_(compute_type(config.train.precision)),
      loss_(std::move(loss)),
      accumulate_(config.train.accumulate),
      alone_(processes == nullptr ? parallel::Processes::alone(config.parallel, device.is_cuda()) : nullptr),
      processes_(processes == nullptr ? *alone_ : *processes),
      stages_(model, config, processes_.mesh()),
      stage_times_(device) {
  at::NoGradGuard no_grad;
  if (type_ == at::kHalf) loss_scale_.emplace(config.train.loss_scale);
  auto weights = stages_.take_own(model, values, /*pieces=*/config.parallel.zero == 3);
  for (const auto& weight : model.parameters())
    if (!stages_.owns(weight.name)) elsewhere_ += static_cast<int64_t>(weight.tensor.numel());
  for (auto& weight : weights)
    if (weight.tensor.requires_grad() && nn::is_materialized(weight.tensor))
      weight.master = weight.tensor.detach().to(device, at::kFloat);
  model.to(device, type_);  // the same tensors, narrowed
  elsewhere_ *= static_cast<int64_t>(c10::elementSize(type_));
  weights_ = parallel::make_trained_weights(processes_, config.parallel, std::move(weights), model.tree(),
                                            stages_.values_of_shards(values), stages_.weights());
  if (config.parallel.sync_batch_norm && weights_->travel())
    statistics_ = std::make_unique<parallel::BatchStatistics>(*processes_.statistics());
  optimizer_ = std::make_unique<optim::Optimizer>(weights_->take_parts(), config.optim);
  residents_ = nn::Residents(model.held());
  expert_counters_ = nn::ExpertCounters(model.tree(), device);
  make_fp8();
  use(config.memory);
  make_graphs();
  check_processes();
}

Stepper::~Stepper() = default;

void Stepper::make_fp8() {
  if (config_.train.precision != Precision::fp8) return;
  if (model_.tree() == nullptr)
    throw base::ConfigError("train.precision = \"fp8\" needs a model whose blocks are known",
                            "use bf16 for a module of your own");
  const auto& fp8 = config_.fp8;
  fp8_ = std::make_unique<nn::Fp8Linears>(*model_.tree(), device_, fp8.options,
                                          fp8.measure && !config_.train.deterministic);
}

// All processes scale alike, by the largest value that any of them met: of a layer that is cut or lies on one stage,
// too. They have the same list of layers, so that each goes on as any other would and leaves the same history.
void Stepper::next_fp8_step() {
  if (!fp8_) return;
  for (auto* group : {&processes_.gradients(), processes_.replicas(), processes_.model()}) {
    if (group == nullptr || group->size() == 1) continue;
    const auto& own = fp8_->scales().largest();
    const auto all = at::empty({group->size() * own.numel()}, own.options());
    group->all_gather(all, own, "fp8 scales").wait();
    own.copy_(std::get<0>(all.view({group->size(), own.numel()}).max(0)));
  }
  fp8_->scales().next_step();
}

Batch Stepper::own_part(const Batch& batch) const {
  const auto* context = processes_.context();
  if (context == nullptr) return batch;
  return own_tokens(batch,
                    strategy::token_cut(context->method(), context->count(), context->index(), batch.inputs.size(1)));
}

double Stepper::parts_like(int64_t rows) const { return static_cast<double>(rows_) / static_cast<double>(rows); }

double Stepper::share_of(int64_t rows, int64_t counted) const {
  return counted > 0 ? counted_ / static_cast<double>(counted) : parts_like(rows);
}

models::Hidden Stepper::forward(const Batch& part, const Piece& piece, const models::Stage& stage,
                                const models::Hidden& hidden, nn::SavedBytesMeter* meter) {
  const profile::Span span("forward");
  nn::Pass pass;
  part.apply_to(pass);
  pass.training = true;
  pass.reference = config_.train.optimize == Optimize::reference;
  pass.fused_blocks = !pass.reference && (fp8_ || fuses_blocks(config_.train.optimize, device_.is_cuda()));
  pass.apart = config_.parallel.same_bits;
  pass.seed = config_.train.seed;
  pass.step = static_cast<uint32_t>(piece.step);
  pass.micro_batch = static_cast<uint32_t>(piece.index * processes_.batch_count() + processes_.batch_index());
  pass.batch_stats = statistics_.get();
  pass.block_hook = weights_->block_hook();
  pass.shards = processes_.shards(), pass.by_sequence = pass.shards != nullptr && config_.parallel.sequence;
  pass.context = processes_.context(), pass.experts = processes_.experts(), pass.later = piece.later;
  if (counts_right_ && !graphs_ && !records_stages_) pass.right = &right_;
  doing_ = "forward";
  if (base::fault_point("train.forward") == base::Fault::memory) throw std::bad_alloc();
  weights_->begin_pass();
  const ForwardMemory techniques(memory_, residents_, meter, pass);
  at::Tensor value;
  if (!stages_.whole()) {
    auto given = models::run_stage(*model_.parts(), stage, stage.first ? models::Hidden{part.inputs} : hidden,
                                   part.targets, pass);
    if (!stage.last) return given;
    value = given.states;
  } else {
    value =
        loss_ ? loss_(model_.logits(part.inputs, pass), part.targets) : model_.loss(part.inputs, part.targets, pass);
  }
  const auto loss = shares_.defined()  ? value.mul(shares_[piece.index])
                    : piece.share == 1 ? value
                                       : value.div(piece.share);
  return {pass.auxiliary_loss.defined() ? loss.add(pass.auxiliary_loss.div(parts_like(part.rows()))) : loss};
}

void Stepper::backward(const models::Hidden& given, const models::Hidden& gradient, int64_t index, int64_t count,
                       int64_t part) {
  const profile::Span span("backward");
  doing_ = "backward";
  weights_->begin_backward(index, count, part);
  // Our own models use a weight once; a loss of the caller's may use it again, and hooks read gradients on the way.
  const bool ours = !weights_->travel() && !loss_ && model_.tree() != nullptr &&
                    std::none_of(optimizer_->parameters().begin(), optimizer_->parameters().end(),
                                 [](const auto& part) { return kernels::has_gradient_hooks(part.tensor); });
  std::optional<kernels::SumsAtEnd> sums;
  if (ours) sums.emplace();
  if (gradient.beside.defined() && given.beside.requires_grad()) {
    torch::autograd::backward({given.states, given.beside}, {gradient.states, gradient.beside});
  } else if (gradient.states.defined()) {
    given.states.backward(gradient.states);
  } else {
    const auto& loss = given.states;
    const auto scaled = !loss_scale_                          ? loss
                        : optimizer_->scale_state().defined() ? loss.mul(optimizer_->loss_scale())
                                                              : loss.mul(loss_scale_->scale());
    if (!one_.defined()) one_ = at::ones_like(scaled);
    scaled.backward(one_);
  }
  if (ours) sums->add_up();
  weights_->end_backward();
}

// What a backward left of such a part; to the weights as another backward of it.
void Stepper::backward_weights(blocks::LaterGradients& later, int64_t index, int64_t count, int64_t part) {
  const profile::Span span("backward");
  doing_ = "backward";
  weights_->begin_backward(index, count, part);
  later.make();
  weights_->end_backward();
}

// The parts of a batch, on their way through this process's stages.
class Stepper::MicroBatches final : public parallel::PipelineStages {
 public:
  MicroBatches(Stepper& stepper, const std::vector<strategy::Instruction>& list, const Batch& all, int64_t step,
               profile::StepTimer& timer, nn::SavedBytesMeter* meter)
      : stepper_(stepper), all_(all), step_(step), timer_(timer), meter_(meter) {
    const auto add = [&](const strategy::Instruction& work, bool weights) {
      backwards_.emplace(std::tuple(work.stage, work.micro_batch, weights), std::ssize(backwards_));
    };
    for (const auto& work : list) {
      using strategy::Does;
      if (work.does == Does::backward || work.does == Does::backward_input) add(work, false);
      if (splits() && (work.does == Does::backward || work.does == Does::backward_weights)) add(work, true);
    }
  }

  parallel::StageTensors forward(int64_t stage, int64_t index, const parallel::StageTensors& hidden) override {
    const int64_t count = stepper_.parts_here_;
    const auto& part = parts_[{stage, index}] = all_.part(index, count);
    const Piece piece{step_, index, stepper_.share_of(part.rows(), part.counted_in_all()),
                      splits() ? &later_[{stage, index}] : nullptr};
    auto [states, beside] =
        stepper_.forward(part, piece, stepper_.stages_.stage(stage), {hidden.states, hidden.beside}, meter_);
    timer_.mark(Phase::forward);
    return {std::move(states), std::move(beside)};
  }

  void backward(int64_t stage, int64_t index, const parallel::StageTensors& given,
                const parallel::StageTensors& gradient) override {
    stepper_.backward({given.states, given.beside}, {gradient.states, gradient.beside}, number(stage, index, false),
                      std::ssize(backwards_), index);
    timer_.mark(Phase::backward);
    parts_.erase({stage, index});
  }

  void backward_weights(int64_t stage, int64_t index) override {
    if (!splits()) return;
    auto later = later_.extract({stage, index});
    stepper_.backward_weights(later.mapped(), number(stage, index, true), std::ssize(backwards_), index);
    timer_.mark(Phase::backward);
  }

 private:
  bool splits() const { return stepper_.stages_.splits_backward(); }
  int64_t number(int64_t stage, int64_t index, bool weights) const { return backwards_.at({stage, index, weights}); }

  Stepper& stepper_;
  const Batch& all_;
  int64_t step_;
  profile::StepTimer& timer_;
  nn::SavedBytesMeter* meter_;
  std::map<std::pair<int64_t, int64_t>, Batch> parts_;                   // from a forward to its backward
  std::map<std::pair<int64_t, int64_t>, blocks::LaterGradients> later_;  // to that of its weights
  std::map<std::tuple<int64_t, int64_t, bool>, int64_t> backwards_;  // how many come before this one, or its weights'
};

std::vector<at::Tensor> Stepper::losses(const Batch& all, int64_t step, profile::StepTimer& timer,
                                        nn::SavedBytesMeter* meter) {
  const auto list = stages_.list(all, parts_here_);
  const StageWork compute = [&](const Batch& batch, profile::StepTimer& marked, const auto& around) {
    MicroBatches micro_batches(*this, list, batch, step, marked, meter);
    return parallel::run_pipeline(list, around(micro_batches), processes_.links(),
                                  at::TensorOptions(device_).dtype(type_), stages_.beside(),
                                  times_stages_ ? &stage_times_ : nullptr);
  };
  return meter != nullptr ? compute(all, timer, parallel::StageGraphs::as_they_are)
                          : by_stages(all, list, step, timer, compute);
}

at::Tensor Stepper::gradients(const Batch& all, int64_t step, profile::StepTimer& timer, nn::SavedBytesMeter* meter) {
  right_.reset();
  expert_counters_.begin_step();
  parts_here_ = std::min(accumulate_, fewest_);
  if (times_stages_) timed_step_ = step, timed_parts_ = parts_here_;
  const auto losses = this->losses(all, step, timer, meter);
  if (losses.empty()) return at::zeros({}, at::TensorOptions(device_).dtype(at::kFloat));
  if (config_.parallel.same_bits) return comm::tree_sum(losses);
  at::Tensor loss = losses.front();
  for (size_t i = 1; i < losses.size(); ++i) loss = loss.add(losses[i]);
  return loss;
}

Stepper::StageTimes Stepper::stage_times() const {
  if (timed_step_ == 0) return {};
  return {timed_step_, timed_parts_, stage_times_.read()};
}

StepResult Stepper::run(const Batch& batch, int64_t step, double lr, profile::StepTimer& timer) {
  const profile::SpanPlace place(processes_.rank(), step);
  const profile::Span span("step");
  profile::Span data("data");
  device::set_tuning(config_.train.optimize == Optimize::max && !config_.train.deterministic);
  const Batch own = own_part(batch);
  Batch all = to_device(own, device_, type_);
  if (times_stages_) stage_times_.settle();
  const auto agreed =
      processes_.agree({own.counted_in_all(), batch.hash, base::stop_signal(), batch.rows(), batch.documents});
  if (times_stages_) stage_times_.begin();
  all.documents = room_for_documents(agreed.documents, batch);
  counted_ = static_cast<double>(agreed.counted), rows_ = agreed.rows, fewest_ = agreed.fewest;
  timer.mark(Phase::data);
  data.end();
  auto result = by_graph(all, step, lr, timer);
  if (!result) {
    scale_on_host();
    const auto loss = gradients_in_memory(all, step, timer);
    kernels::SmallWrites writes;
    optimizer_->set_numbers(lr, updates_ + 1, writes);
    writes.queue();
    result = update(loss);
    updates_ += result->skipped ? 0 : 1;
    timer.mark(Phase::optimizer);
    const bool counts = counts_right_ && !records_stages_;
    const bool here = right_.defined() && processes_.mesh().index(strategy::Axis::tp) == 0;
    if (counts && !here) right_ = at::zeros({}, at::kLong);  // another stage counts them, or another shard
    result->right = right_, result->counted = counted_;
    if (expert_counters_.counted().defined()) result->expert_load = expert_counters_.counted().clone();
  }
  result->hash = agreed.hash, result->stop = agreed.stop;
  return *std::move(result);
}

StepResult Stepper::update(at::Tensor loss) {
  const profile::Span span("update");
  const at::NoGradGuard no_grad;
  StepResult result;
  {
    const auto gradients = weights_->gradients();
    const bool decides = loss_scale_ && !optimizer_->scale_state().defined();  // here; else the device does
    const double scale = decides ? loss_scale_->scale() : 1.0;
    const auto clip = weights_->clip(*optimizer_, gradients, config_.optim.clip, scale, loss);
    // The host must know before it updates; only fp16 has to wait for the device here.
    result.skipped = decides && !std::isfinite(clip.norm.item<double>());
    if (decides) loss_scale_->told(result.skipped), result.loss_scale = loss_scale_->scale();
    if (!result.skipped) optimizer_->update(gradients, clip.scale);
    result.loss = loss, result.grad_norm = clip.norm;
  }
  next_fp8_step();
  weights_->updated();
  if (statistics_ == nullptr) equalise_buffers();
  return result;
}

// Running statistics learn from each process's own rows: all go on with those of the first.
void Stepper::equalise_buffers() {
  if (processes_.size() == 1) return;
  for (const auto& buffer : model_.buffers()) processes_.follow_first(buffer.tensor, "buffers");
}

}  // namespace hyperion::train
