// The step as a graph that is recorded once and replayed (train/step_graph.h).
#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <span>

#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/words.h"
#include "hyperion/device/device.h"
#include "hyperion/kernels/dropout.h"
#include "hyperion/parallel/processes.h"
#include "hyperion/parallel/trained_weights.h"
#include "hyperion/profile/span.h"
#include "hyperion/train/stepper.h"

namespace hyperion::train {
namespace {

using base::format;

std::string sizes_text(const at::Tensor& tensor) {
  std::string text;
  for (const auto size : tensor.sizes()) text += format("{}x", size);
  return text;
}

}  // namespace

std::string Stepper::unrecorded() const {
  if (!device_.is_cuda()) return "it needs a GPU";
  if (memory_.offload_activations) return "activations go to the host";
  if (memory_.offload_optimizer) return "the optimizer is on the host";
  if (processes_.experts() != nullptr) return "how many tokens pass between the processes is known only then";
  if (!processes_.recordable(device_)) return "the processes talk by way of the host";
  if (stages_.whole()) return {};
  if (loss_scale_) return "between stages the scale of fp16 is the host's";
  if (stages_.splits_backward()) return "the schedule makes backwards in two";
  if (config_.parallel.same_bits) return "the gradients of each micro-batch are kept apart";
  if (weights_->travel() && config_.parallel.zero > 1)
    return format("with stages and zero = {} pieces move beside every micro-batch; use zero = 1",
                  config_.parallel.zero);
  return {};
}

// The same on all processes in the same steps, so that all record together.
std::string Stepper::shape_text(const Batch& all) const {
  return format("{} {} {} {} of {}", sizes_text(all.inputs), sizes_text(all.targets), all.documents, accumulate_,
                rows_);
}

void Stepper::make_graphs() {
  const Optimize optimize = config_.train.optimize;
  if (device_.is_cuda() && optimize != Optimize::reference && !config_.train.deterministic && !weights_->travel())
    device::measure_convolutions();
  if (!records_graphs(optimize)) return;
  if (const std::string reason = unrecorded(); !reason.empty())
    return base::log_warn(format("train.optimize = \"{}\" runs as \"fused\": {}", base::word_of(optimize), reason));
  records_stages_ = !stages_.whole();
  if (records_stages_) return;
  graphs_ = std::make_unique<StepGraphs>(
      [this] {
        optimizer_->renew_tables();
        processes_.begin_recording();
      },
      [this] {
        optimizer_->renew_tables();
        return processes_.end_recording();
      });
  if (loss_scale_) optimizer_->scale_on_device({static_cast<float>(loss_scale_->scale()), 0, 0, 0});
}

bool Stepper::record_patterns(const std::function<void(const std::function<void()>&)>& record) {
  if (!graphs_ || graphs_->refused() || graphs_->has_patterns()) return false;
  device::synchronize(device_);
  graphs_->forget();
  graphs_->record_patterns(record);
  return true;
}

// How the parts' losses weigh differs from batch to batch, so a recording finds it on the device.
void Stepper::tell_shares(const Batch& all) {
  constexpr size_t kAtOnce = 16;
  if (accumulate_ == 1 && !weights_->travel()) return;
  const int64_t parts = std::min(accumulate_, fewest_);
  std::vector<float> shares;
  for (int64_t index = 0; index < parts; ++index)
    shares.push_back(
        static_cast<float>(1 / share_of(all.rows_of_part(index, parts), all.counted_in_part(index, parts))));
  if (!shares_.defined() || shares_.numel() < parts)
    shares_ = at::empty({accumulate_}, at::TensorOptions(device_).dtype(at::kFloat));
  for (size_t at = 0; at < shares.size(); at += kAtOnce) {
    const auto some = std::span(shares).subspan(at, std::min(kAtOnce, shares.size() - at));
    kernels::SmallWrites writes;
    writes.set(shares_.narrow(0, static_cast<int64_t>(at), static_cast<int64_t>(some.size())), some);
    writes.queue();
  }
}

// A graph has room for a number of documents. So it is rounded up, to what rows of short documents need at least, and
// stays where a step has fewer; where one has more, what was recorded will not be met again.
int64_t Stepper::room_for_documents(int64_t most, const Batch& batch) {
  constexpr int64_t kTokens = 128;  // of a document, in the mean of a row
  if (most <= documents_) return most == 0 ? 0 : documents_;
  if (documents_ > 0 && records()) device::synchronize(device_), stage_graphs_.clear();
  if (documents_ > 0 && graphs_) graphs_->forget();
  const auto enough = std::max(most, batch.inputs.size(1) / kTokens);
  return documents_ = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(enough)));
}

std::vector<at::Tensor> Stepper::by_stages(const Batch& all, const std::vector<strategy::Instruction>& list,
                                           int64_t step, profile::StepTimer& timer, const StageWork& compute) {
  constexpr size_t kShapes = 4;  // each keeps its own memory
  if (!records_stages_) return compute(all, timer, parallel::StageGraphs::as_they_are);
  kernels::SmallWrites writes;
  kernels::set_recorded_step(device_, static_cast<uint32_t>(step), writes);
  tell_shares(all);
  profile::NoStepTimer unmarked;
  std::vector<at::Tensor> losses;
  const auto shape = shape_text(all);
  if (stage_graphs_.size() < kShapes || stage_graphs_.contains(shape)) {
    auto& [fixed, graphs] = stage_graphs_
                                .try_emplace(shape, FixedStages{{},
                                                                {*weights_, [this] { processes_.begin_recording(); },
                                                                 [this] { return processes_.end_recording(); }}})
                                .first->second;
    if (graphs.fixed() && fixed.inputs.defined()) fill(fixed, all, writes);
    if (graphs.fixed() && !fixed.inputs.defined()) fixed = fixed_copy(all);
    writes.queue();
    const Batch& batch = graphs.fixed() ? fixed : all;
    losses = graphs.run(list, [&](const auto& around) { return compute(batch, unmarked, around); });
    if (graphs.refused()) records_stages_ = false, stage_graphs_.clear();
  } else {
    writes.queue();
    losses = compute(all, unmarked, parallel::StageGraphs::as_they_are);
  }
  timer.mark(profile::Phase::backward);  // of graphs only the whole is known
  return losses;
}

std::optional<StepResult> Stepper::by_graph(const Batch& all, int64_t step, double lr, profile::StepTimer& timer) {
  if (!graphs_ || graphs_->refused()) {
    if (!records_stages_) shares_.reset();
    return std::nullopt;
  }
  kernels::SmallWrites writes;
  optimizer_->set_numbers(lr, ++updates_, writes);
  kernels::set_recorded_step(device_, static_cast<uint32_t>(step), writes);
  profile::NoStepTimer untimed;
  tell_shares(all);
  const auto compute = [&](const Batch& batch) {
    weights_->drop_gradients();  // what a recording that failed has left
    const auto result = update(gradients(batch, step, untimed));
    weights_->settle();
    const auto copy = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.clone() : tensor; };
    return StepFigures{result.loss, result.grad_norm, copy(optimizer_->scale_state()),
                       copy(expert_counters_.counted())};
  };
  StepFigures figures;
  const profile::Span span("graph");
  try {
    figures = graphs_->run(shape_text(all), all, writes, compute);
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    graphs_.reset(), shares_.reset();  // the plain step, tried next, adapts or says what took the memory
    weights_->drop_gradients();
    --updates_;
    return std::nullopt;
  }
  timer.mark(profile::Phase::backward);  // of a graph only the whole is known
  StepResult result;
  result.loss = figures.loss, result.grad_norm = figures.grad_norm, result.undecided = figures.scale_state;
  result.expert_load = figures.expert_load;
  return result;
}

}  // namespace hyperion::train
