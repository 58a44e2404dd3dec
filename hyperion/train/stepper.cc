#include "hyperion/train/stepper.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/signals.h"
#include "hyperion/kernels/choices.h"
#include "hyperion/kernels/device.h"
#include "hyperion/kernels/dropout.h"
#include "hyperion/kernels/part_sums.h"
#include "hyperion/nn/projection.h"
#include "hyperion/nn/saved_bytes.h"
#include "hyperion/nn/without_memory.h"
#include "hyperion/parallel/batch_statistics.h"
#include "hyperion/parallel/data_parallel.h"
#include "hyperion/parallel/equal_ranks.h"
#include "hyperion/profile/memory.h"
#include "hyperion/train/processes.h"

namespace hyperion::train {
namespace {

using base::format;
using profile::Phase;

int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  int64_t sum = 0;
  for (const auto& tensor : tensors)
    if (tensor.defined()) sum += static_cast<int64_t>(tensor.nbytes());
  return sum;
}

std::string sizes_text(const at::Tensor& tensor) {
  std::string text;
  for (const auto size : tensor.sizes()) text += format("{}x", size);
  return text;
}

std::string shown(int64_t bytes) { return base::bytes_text(static_cast<uint64_t>(std::max<int64_t>(bytes, 0))); }

}  // namespace

Stepper::Stepper(models::Model& model, const RunConfig& config, at::Device device, LossFunction loss,
                 Processes* processes, const models::Values& values)
    : model_(model),
      config_(config),
      device_(device),
      type_(compute_type(config.train.precision)),
      loss_(std::move(loss)),
      accumulate_(config.train.accumulate),
      processes_(processes) {
  at::NoGradGuard no_grad;
  if (type_ == at::kHalf) loss_scale_.emplace(config.train.loss_scale);
  std::vector<at::Tensor> wide, masters;  // wide: the trained values before they are narrowed
  for (const auto& parameter : model.parameters())
    if (parameter.tensor.requires_grad())
      wide.push_back(nn::has_memory(parameter.tensor) ? parameter.tensor.detach().to(device, at::kFloat)
                                                      : at::Tensor());
  model.to(device, type_);
  const bool several = processes != nullptr && processes->size() > 1;
  if (several || config.parallel.zero > 0 || config.parallel.same_bits) {
    make_parallel(wide, values);
    return;
  }
  residents_ = nn::Residents(model.held());
  std::vector<optim::Parameter> parameters;
  for (const auto& parameter : model.parameters()) {
    if (!parameter.tensor.requires_grad()) continue;
    parameters.push_back({parameter.name, parameter.tensor, parameter.decay});
    const bool narrow = parameter.tensor.scalar_type() != at::kFloat;
    if (narrow &&
        !kernels::laid_out_alike(parameter.tensor, wide[weights_.size()]))  // the model lay its weights out anew
      wide[weights_.size()] = parameter.tensor.detach().to(at::kFloat).copy_(wide[weights_.size()]);
    masters.push_back(narrow ? wide[weights_.size()] : parameter.tensor);
    weights_.push_back(parameter.tensor);
  }
  optimizer_ = std::make_unique<optim::Optimizer>(std::move(parameters), std::move(masters), config.optim);
  gradients_.resize(weights_.size());
  make_fp8();
  use(config.memory);
  const auto& optimize = config.train.optimize;
  kernels::measure_choices(optimize == "max" && !config.train.deterministic);
  if (device.is_cuda() && optimize != "reference" && !config.train.deterministic) kernels::measure_convolutions();
  if (optimize == "graph" || optimize == "max") {
    const std::string reason = !device.is_cuda()             ? "it needs a GPU"
                               : memory_.offload_activations ? "activations go to the host"
                               : memory_.offload_optimizer   ? "the optimizer is on the host"
                                                             : "";
    if (reason.empty()) {
      graphs_ = std::make_unique<StepGraphs>([this] { optimizer_->renew_tables(); });
      if (loss_scale_) optimizer_->scale_on_device({static_cast<float>(loss_scale_->scale()), 0, 0, 0});
    } else {
      base::log_warn(format("train.optimize = \"{}\" runs as \"fused\": {}", optimize, reason));
    }
  }
}

Stepper::~Stepper() = default;

void Stepper::make_parallel(const std::vector<at::Tensor>& wide, const models::Values& values) {
  HYPERION_CHECK(processes_ != nullptr, "a run that is cut needs its processes, be it one");
  std::vector<parallel::Weight> weights;
  for (const auto& parameter : model_.parameters()) {
    weights.push_back({parameter.name, parameter.tensor, parameter.decay, 0});
    if (parameter.tensor.requires_grad()) weights_.push_back(parameter.tensor);
  }
  // Weights in 4 bits are no parameters, but are cut all the same: what travels is the packed form.
  if (config_.parallel.zero == 3 && model_.tree() != nullptr)
    model_.tree()->visit([&](const std::string& path, nn::Module& module) {
      if (const auto* projection = dynamic_cast<nn::Projection*>(&module))
        for (const auto& piece : projection->packed())
          weights.push_back({format("{}.packed.{}", path, weights.size()), piece, false, 0});
    });
  for (const auto& weight : weights) taken_over_ += static_cast<int64_t>(weight.tensor.nbytes());
  const auto& config = config_.parallel;
  parallel::DataParallelOptions options{config.zero, config.bucket << 20, config.prefetch};
  if (config.wire != "own") options.wire = compute_type(config.wire);
  options.same_bits = config_.parallel.same_bits;
  options.values = values;
  options.replicas = processes_->replicas();
  const auto plus = parallel::zeropp_of(config);
  options.quantised_weights = plus.weights;
  if (plus.secondary) options.secondary = processes_->node();
  if (plus.grads) options.node = processes_->node(), options.across_nodes = processes_->across_nodes();
  parallel_ = std::make_unique<parallel::DataParallel>(processes_->gradients(), processes_->weights(),
                                                       std::move(weights), model_.tree(), options);
  if (config.sync_batch_norm) statistics_ = std::make_unique<parallel::BatchStatistics>(*processes_->statistics());
  std::vector<optim::Parameter> parameters;
  for (const auto& part : parallel_->parts()) parameters.push_back(part.parameter);
  optimizer_ = std::make_unique<optim::Optimizer>(std::move(parameters), parallel_->masters(wide), config_.optim);
  residents_ = nn::Residents(model_.held());
  make_fp8();
  use(config_.memory);
  const auto& optimize = config_.train.optimize;
  kernels::measure_choices(optimize == "max" && !config_.train.deterministic);
  if (optimize == "graph" || optimize == "max")
    base::log_warn(
        format("train.optimize = \"{}\" runs as \"fused\": weights or gradients travel in each step", optimize));
  check_processes();
}

void Stepper::make_fp8() {
  if (config_.train.precision != "fp8") return;
  if (model_.tree() == nullptr)
    throw base::ConfigError("train.precision = \"fp8\" needs a model whose blocks are known",
                            "use bf16 for a module of your own");
  const auto& fp8 = config_.fp8;
  fp8_ = std::make_unique<nn::Fp8Maps>(*model_.tree(), device_,
                                       kernels::Fp8Options{fp8.scale == "rows", fp8.scale == "current", fp8.history},
                                       fp8.measure && !config_.train.deterministic);
}

// All processes scale alike, by the largest value that any of them met.
void Stepper::next_fp8_step() {
  if (!fp8_) return;
  const auto agree = [&](comm::Group* group) {
    if (group == nullptr || group->size() == 1) return;
    const auto& own = fp8_->scales().largest();
    const auto all = at::empty({group->size() * own.numel()}, own.options());
    group->all_gather(all, own, "fp8 scales").wait();
    own.copy_(std::get<0>(all.view({group->size(), own.numel()}).max(0)));
  };
  if (parallel_) agree(&processes_->gradients()), agree(processes_->replicas());
  fp8_->scales().next_step();
}

void Stepper::use(const MemoryConfig& memory) {
  memory_ = memory;
  if (memory.offload_optimizer) optimizer_->to_host();
}

int64_t Stepper::parts() const { return parts_here_ * (processes_ != nullptr ? processes_->batch_count() : 1); }

at::Tensor Stepper::forward(const Batch& part, int64_t step, int64_t index, double share, nn::SavedBytesMeter* meter) {
  nn::Pass pass;
  part.tell(pass);
  pass.training = true;
  pass.reference = config_.train.optimize == "reference";
  pass.fused_blocks = !pass.reference && (device_.is_cuda() || fp8_);
  pass.seed = config_.train.seed;
  pass.step = static_cast<uint32_t>(step);
  const bool several = processes_ != nullptr;
  pass.micro_batch =
      static_cast<uint32_t>(several ? index * processes_->batch_count() + processes_->batch_index() : index);
  pass.across = statistics_.get();
  if (parallel_ && parallel_->weights_are_cut()) pass.around = parallel_.get();
  if (counts_right_ && !graphs_ && meter == nullptr) pass.right = &right_;
  doing_ = "forward";
  if (base::fault_point("train.forward") == base::Fault::memory) throw std::bad_alloc();
  const ForwardMemory techniques(memory_, residents_, meter, pass);
  const auto value =
      loss_ ? loss_(model_.logits(part.inputs, pass), part.targets) : model_.loss(part.inputs, part.targets, pass);
  const auto loss = share == 1 ? value : value.div(share);
  return pass.auxiliary_loss.defined() ? loss.add(pass.auxiliary_loss.div(static_cast<double>(parts()))) : loss;
}

void Stepper::backward(const at::Tensor& loss) {
  doing_ = "backward";
  // Our own models use a weight once; a loss of the caller's may use it again, and hooks read gradients on the way.
  const bool ours = !parallel_ && !loss_ && model_.tree() != nullptr &&
                    std::none_of(weights_.begin(), weights_.end(), kernels::has_gradient_hooks);
  std::optional<kernels::SumsAtEnd> sums;
  if (ours) sums.emplace();
  const auto scaled = !loss_scale_                          ? loss
                      : optimizer_->scale_state().defined() ? loss.mul(optimizer_->loss_scale())
                                                            : loss.mul(loss_scale_->scale());
  if (!one_.defined()) one_ = at::ones_like(scaled);
  scaled.backward(one_);
  if (ours) sums->add_up();
}

at::Tensor Stepper::micro_batch(const Batch& part, int64_t step, int64_t index, double share,
                                profile::StepTimer& timer) {
  const auto loss = forward(part, step, index, share, nullptr);
  timer.mark(Phase::forward);
  backward(loss);
  timer.mark(Phase::backward);
  return loss.detach();
}

// Parts of a batch add up in fp32 whatever the gradients' type.
void Stepper::take_gradients(int64_t index) {
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < weights_.size(); ++i) {
    at::Tensor& gradient = weights_[i].mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(weights_[i]);  // not used by this part: an idle expert
    if (parts_here_ == 1) {
      gradients_[i] = gradient;
    } else if (index == 0) {
      gradients_[i] = gradient.to(at::kFloat);
    } else {
      gradients_[i].add_(gradient);
    }
    gradient.reset();
  }
}

void Stepper::drop_gradients() {
  for (auto& weight : weights_) weight.mutable_grad().reset();
  for (auto& gradient : gradients_) gradient.reset();
}

at::Tensor Stepper::gradients(const Batch& all, int64_t step, profile::StepTimer& timer) {
  std::vector<at::Tensor> losses;
  right_.reset();
  parts_here_ = std::min(accumulate_, all.rows());
  for (int64_t index = 0; index < parts_here_; ++index) {
    const Batch part = all.part(index, parts_here_);
    // A part's loss is the mean over its own targets, and weighs by how many of the batch's they are.
    const auto counted = static_cast<double>(part.counted_in_all());
    const double share = counted > 0 ? counted_ / counted : static_cast<double>(parts());
    if (parallel_) parallel_->begin_micro_batch(index, parts_here_);
    losses.push_back(micro_batch(part, step, index, share, timer));
    parallel_ ? parallel_->end_micro_batch() : take_gradients(index);
  }
  if (parallel_) gradients_ = parallel_->gradients();
  if (config_.parallel.same_bits) return comm::tree_sum(losses);
  at::Tensor loss = losses.front();
  for (size_t i = 1; i < losses.size(); ++i) loss = loss.add(losses[i]);
  return loss;
}

StepResult Stepper::run(const Batch& batch, int64_t step, double lr, profile::StepTimer& timer) {
  const Batch all = to_device(batch, device_, type_);
  Processes::Step agreed{batch.counted_in_all(), batch.hash, base::stop_signal()};
  if (processes_ != nullptr) agreed = processes_->agree(agreed);
  counted_ = static_cast<double>(agreed.counted);
  timer.mark(Phase::data);
  if (auto result = by_graph(all, step, lr, timer)) {
    result->hash = agreed.hash, result->stop = agreed.stop;
    return *std::move(result);
  }
  scale_on_host();
  at::Tensor loss;
  while (!loss.defined()) {
    try {
      loss = gradients(all, step, timer);
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error)) throw;
      if (parallel_) out_of_memory(step);
      drop_gradients();
      profile::release_cached_memory(device_.is_cuda());
      if (memory_.on_oom != "adapt" || config_.train.batch % (2 * accumulate_) != 0) out_of_memory(step);
      accumulate_ *= 2;
      base::log_warn(
          format("step {}: out of memory in the {} pass; from here on the batch is computed in {} parts of {}", step,
                 doing_, accumulate_, config_.train.batch / accumulate_));
    }
  }
  at::NoGradGuard no_grad;
  const double scale = loss_scale_ ? loss_scale_->scale() : 1.0;
  const auto clip = parallel_ ? parallel_->clip(gradients_, config_.optim.clip, scale, loss)
                              : optimizer_->clip(gradients_, config_.optim.clip, scale);
  // The host must know before it updates; only fp16 has to wait for the device here.
  const bool skipped = loss_scale_ && !std::isfinite(clip.norm.item<double>());
  if (loss_scale_) loss_scale_->told(skipped);
  if (!skipped) optimizer_->update(gradients_, clip.scale, lr, ++updates_);
  next_fp8_step();
  for (auto& gradient : gradients_) gradient.reset();
  if (parallel_) parallel_->updated();
  if (parallel_ && statistics_ == nullptr) equalise_buffers();
  timer.mark(Phase::optimizer);
  return {loss,        clip.norm, skipped, loss_scale_ ? loss_scale_->scale() : 0, {}, agreed.hash,
          agreed.stop, right_,    counted_};
}

std::optional<StepResult> Stepper::by_graph(const Batch& all, int64_t step, double lr, profile::StepTimer& timer) {
  if (!graphs_ || graphs_->refused()) return std::nullopt;
  std::string shape =
      format("{} {} {} {}", sizes_text(all.inputs), sizes_text(all.targets), all.documents.defined(), accumulate_);
  if (accumulate_ > 1)  // the parts' shares of the loss are numbers of the recording
    for (const auto counted : all.counted) shape += format(" {}", counted);
  kernels::SmallWrites writes;
  optimizer_->set_numbers(lr, ++updates_, writes);
  kernels::set_recorded_step(device_, static_cast<uint32_t>(step), writes);
  class Untimed final : public profile::StepTimer {
    void mark(Phase) override {}
    profile::PhaseTimes milliseconds() override { return {}; }
  } untimed;
  const auto compute = [&](const Batch& batch) {
    drop_gradients();  // what a recording that failed has left
    const auto loss = gradients(batch, step, untimed);
    at::NoGradGuard no_grad;
    const auto clip = optimizer_->clip(gradients_, config_.optim.clip, 1);
    optimizer_->update(gradients_, clip.scale);
    next_fp8_step();
    for (auto& gradient : gradients_) gradient.reset();
    const auto& state = optimizer_->scale_state();
    return StepFigures{loss, clip.norm, state.defined() ? state.clone() : state};
  };
  StepFigures figures;
  try {
    figures = graphs_->run(shape, all, writes, compute);
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    graphs_.reset();  // the plain step, tried next, adapts or says what took the memory
    drop_gradients();
    --updates_;
    return std::nullopt;
  }
  timer.mark(Phase::backward);  // of a graph only the whole is known
  return StepResult{figures.loss, figures.grad_norm, false, 0, figures.scale_state};
}

MemoryReport Stepper::held() const {
  MemoryReport report;
  report.weights = bytes_of(model_.held());
  report.optimizer = optimizer_->bytes().on_device;
  report.optimizer_on_host = optimizer_->bytes().on_host;
  if (parallel_) {
    const auto bytes = parallel_->bytes(accumulate_);
    report.gradients = bytes.gradients;
    report.weights += bytes.weights - taken_over_;
    return report;
  }
  for (const auto& weight : weights_) report.gradients += static_cast<int64_t>(weight.nbytes());
  if (accumulate_ > 1) report.gradients += report.gradients * (type_ == at::kFloat ? 1 : 2);
  return report;
}

void Stepper::out_of_memory(int64_t step) const {
  const MemoryReport fixed = held();
  const bool forward = std::string(doing_) == "forward";
  const std::string what = format(
      "out of memory at step {} in the {} pass, allocating {}; held besides: weights {}, gradients {}, optimizer {}",
      step, doing_, forward ? "activations" : "gradients and what the backward needs meanwhile", shown(fixed.weights),
      shown(fixed.gradients), shown(fixed.optimizer));
  const std::string next = memory_.recompute == "none"        ? "--memory.recompute=selective"
                           : memory_.recompute == "selective" ? "--memory.recompute=full"
                           : !memory_.offload_optimizer       ? "--memory.offload_optimizer=true"
                                                              : "a smaller model";
  throw base::Error(what,
                    config_.train.batch / accumulate_ > 1
                        ? format("try --train.accumulate={}, or {}; --memory.on_oom=adapt does the first by itself",
                                 2 * accumulate_, next)
                        : format("try {}, or a shorter train.length", next));
}

MemoryReport Stepper::measure(const Batch& batch, const MemoryConfig& memory) {
  use(memory);
  const bool gpu = device_.is_cuda();
  std::vector<at::Tensor> buffers;  // running statistics learn in a forward
  for (const auto& buffer : model_.buffers()) buffers.push_back(buffer.tensor.clone());
  const Batch all = to_device(batch, device_, type_);
  parts_here_ = std::min(accumulate_, all.rows());
  const Batch part = all.part(0, parts_here_);
  MemoryReport report = held();
  nn::SavedBytesMeter meter(residents_);
  const int64_t fixed = report.weights + report.optimizer;
  const auto now = [&](int64_t counted) { return gpu ? profile::memory_use(true).allocated.value_or(0) : counted; };
  const auto peak = [&](int64_t counted) { return gpu ? profile::memory_use(true).peak.value_or(0) : counted; };
  profile::reset_peak(gpu);
  report.before = now(fixed);
  if (parallel_) parallel_->begin_micro_batch(0, 1);
  auto loss = forward(part, 1, 0, static_cast<double>(parts_here_), &meter);
  report.activations = meter.bytes();
  report.peak_forward = peak(fixed + report.activations);
  report.after_forward = now(fixed + report.activations);
  profile::reset_peak(gpu);
  backward(loss);
  loss.reset();
  report.peak_backward = peak(fixed + report.gradients + meter.peak());
  report.after_backward = now(fixed + report.gradients);
  if (parallel_) {
    parallel_->end_micro_batch();
    parallel_->gradients();
    parallel_->drop_gradients();
  }
  drop_gradients();
  const int64_t counted = fixed + report.gradients + report.activations;
  report.temporary = std::max<int64_t>(0, report.peak() - counted);
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < buffers.size(); ++i) model_.buffers()[i].tensor.copy_(buffers[i]);
  return report;
}

void StepResult::decide() {
  if (!undecided.defined()) return;
  const auto state = kernels::Updates::read(undecided);
  skipped = state.skipped != 0, loss_scale = state.scale;
  undecided.reset();
}

void Stepper::scale_on_host() {
  if (!optimizer_->scale_state().defined()) return;
  const auto state = kernels::Updates::read(optimizer_->scale_state());
  loss_scale_->restore(state.scale, state.good);
  updates_ = state.updates;
  optimizer_->scale_on_host();
}

StepperNumbers Stepper::numbers() const {
  if (optimizer_->scale_state().defined()) {
    const auto state = kernels::Updates::read(optimizer_->scale_state());
    return {state.updates, state.scale, state.good};
  }
  return {updates_, loss_scale_ ? loss_scale_->scale() : 0, loss_scale_ ? loss_scale_->good_steps() : 0};
}

void Stepper::restore(const StepperNumbers& numbers) {
  updates_ = numbers.updates;
  if (loss_scale_) loss_scale_->restore(numbers.loss_scale, numbers.good_steps);
  if (optimizer_->scale_state().defined())
    optimizer_->scale_on_device({static_cast<float>(numbers.loss_scale), static_cast<int32_t>(numbers.good_steps),
                                 static_cast<int32_t>(numbers.updates), 0});
}

std::vector<optim::StateTensor> Stepper::state() const {
  std::vector<optim::StateTensor> list;
  // What is frozen is in the model this one started from.
  if (!parallel_) {
    for (const auto& parameter : model_.parameters())
      if (parameter.tensor.requires_grad()) list.push_back({"model." + parameter.name, parameter.tensor});
    for (const auto& buffer : model_.buffers()) list.push_back({"model." + buffer.name, buffer.tensor});
    for (const auto& item : optimizer_->state()) list.push_back({"optimizer." + item.name, item.tensor});
    if (fp8_) list.push_back({"fp8.history", fp8_->scales().history()});
    return list;
  }
  std::map<std::string, const parallel::DataParallel::Part*> part_of;
  const auto add = [&](const std::string& name, const at::Tensor& tensor, const parallel::DataParallel::Part& part) {
    list.push_back({name, tensor, part.whole ? -1 : part.begin, part.whole ? std::vector<int64_t>{} : part.shape});
  };
  for (const auto& part : parallel_->parts()) {
    part_of[part.parameter.name] = &part;
    add("model." + part.parameter.name, part.parameter.weight, part);
  }
  for (const auto& buffer : model_.buffers()) list.push_back({"model." + buffer.name, buffer.tensor});
  if (fp8_) list.push_back({"fp8.history", fp8_->scales().history()});
  for (const auto& item : optimizer_->state())
    add("optimizer." + item.name, item.tensor, *part_of.at(item.name.substr(item.name.find('.') + 1)));
  return list;
}

void Stepper::state_changed() {
  if (parallel_) parallel_->updated();
  if (fp8_) fp8_->scales().history_changed();
}

std::vector<at::Tensor> Stepper::trained() const {
  if (!parallel_) return weights_;
  std::vector<at::Tensor> list;
  for (const auto& part : parallel_->parts()) list.push_back(part.parameter.weight);
  return list;
}

void Stepper::check_processes() {
  if (!parallel_) return;
  parallel_->begin_pass();  // gathered weights have arrived
  parallel::NamedTensors same;
  if (!parallel_->weights_are_cut())
    for (const auto& parameter : model_.parameters()) same.emplace_back(parameter.name, parameter.tensor);
  for (const auto& buffer : model_.buffers()) same.emplace_back(buffer.name, buffer.tensor);
  parallel::check_equal(processes_->control(), same);
  parallel_->end_pass();
}

// Running statistics learn from each process's own rows: all go on with those of the first.
void Stepper::equalise_buffers() {
  if (processes_->size() == 1) return;
  for (const auto& buffer : model_.buffers()) processes_->control().broadcast(buffer.tensor, 0, "buffers").wait();
}

}  // namespace hyperion::train
