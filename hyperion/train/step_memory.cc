// What a step takes of memory, and what becomes of one for which there is not enough.
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/nn/saved_bytes.h"
#include "hyperion/parallel/processes.h"
#include "hyperion/parallel/trained_weights.h"
#include "hyperion/profile/memory.h"
#include "hyperion/train/stepper.h"

namespace hyperion::train {
namespace {

using base::format;

int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  int64_t sum = 0;
  for (const auto& tensor : tensors)
    if (tensor.defined()) sum += static_cast<int64_t>(tensor.nbytes());
  return sum;
}

std::string shown(int64_t bytes) { return base::bytes_text(static_cast<uint64_t>(std::max<int64_t>(bytes, 0))); }

// The next larger number of equal parts of a batch, at least twice as many where that divides it; 0: none.
int64_t more_parts(int64_t batch, int64_t parts) {
  if (batch % (2 * parts) == 0) return 2 * parts;
  for (int64_t more = parts + 1; more <= batch; ++more)
    if (batch % more == 0) return more;
  return 0;
}

}  // namespace

void Stepper::use(const MemoryConfig& memory) {
  memory_ = memory;
  if (memory.offload_optimizer) optimizer_->to_host();
}

at::Tensor Stepper::gradients_in_memory(const Batch& all, int64_t step, profile::StepTimer& timer) {
  while (true) {
    try {
      return gradients(all, step, timer);
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error)) throw;
      if (weights_->travel()) out_of_memory(step);  // others wait for what this part would have sent
      weights_->drop_gradients();
      profile::release_cached_memory(device_.is_cuda());
      if (memory_.on_oom != OnOom::adapt || more_parts(config_.train.batch, accumulate_) == 0) out_of_memory(step);
      accumulate_ = more_parts(config_.train.batch, accumulate_);
      base::log_warn(
          format("step {}: out of memory in the {} pass; from here on the batch is computed in {} parts of {}", step,
                 doing_, accumulate_, config_.train.batch / accumulate_));
    }
  }
}

MemoryReport Stepper::held() const {
  MemoryReport report;
  report.weights = bytes_of(model_.held()) - elsewhere_;
  report.optimizer = optimizer_->bytes().on_device;
  report.optimizer_on_host = optimizer_->bytes().on_host;
  const auto bytes = weights_->bytes(accumulate_);
  report.gradients = bytes.gradients;
  report.weights += bytes.weights - bytes.taken_over;
  return report;
}

void Stepper::out_of_memory(int64_t step) const {
  const MemoryReport fixed = held();
  const bool forward = std::string(doing_) == "forward";
  const std::string what = format(
      "out of memory at step {} in the {} pass, allocating {}; held besides: weights {}, gradients {}, optimizer {}",
      step, doing_, forward ? "activations" : "gradients and what the backward needs meanwhile", shown(fixed.weights),
      shown(fixed.gradients), shown(fixed.optimizer));
  const std::string next = memory_.recompute == nn::Recompute::none        ? "--memory.recompute=selective"
                           : memory_.recompute == nn::Recompute::selective ? "--memory.recompute=full"
                           : !memory_.offload_optimizer                    ? "--memory.offload_optimizer=true"
                                                                           : "a smaller model";
  // Several processes must do alike, and none knows what the others found.
  const int64_t sharers = processes_.batch_count();
  const bool adapts = !weights_->travel() && sharers == 1 && memory_.on_oom != OnOom::adapt;
  const int64_t more = more_parts(config_.train.batch, accumulate_),
                parts = more * sharers > config_.train.batch ? 0 : more;
  throw base::Error(what, parts > 0 ? format("try --train.accumulate={}, or {}{}", parts, next,
                                             adapts ? "; --memory.on_oom=adapt does the first by itself" : "")
                                    : format("try {}, or a shorter train.length", next));
}

MemoryReport Stepper::measure(const Batch& batch, const MemoryConfig& memory) {
  use(memory);
  const bool gpu = device_.is_cuda();
  std::vector<at::Tensor> buffers;  // running statistics learn in a forward
  for (const auto& buffer : model_.buffers()) buffers.push_back(buffer.tensor.clone());
  const Batch all = to_device(own_part(batch), device_, type_);
  parts_here_ = std::min(accumulate_, all.rows()), rows_ = all.rows() * processes_.batch_count();
  const Batch part = all.part(0, parts_here_);
  MemoryReport report = held();
  nn::SavedBytesMeter meter(residents_);
  const int64_t fixed = report.weights + report.optimizer;
  const auto now = [&](int64_t counted) { return gpu ? profile::memory_use(true).allocated.value_or(0) : counted; };
  const auto peak = [&](int64_t counted) { return gpu ? profile::memory_use(true).peak.value_or(0) : counted; };
  const auto measured = [&] {
    right_.reset();
    report.after_backward = now(fixed + report.gradients);
    weights_->gradients();  // which may be on their way
    weights_->drop_gradients();
    report.temporary = std::max<int64_t>(0, report.peak() - fixed - report.gradients - report.activations);
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < buffers.size(); ++i) model_.buffers()[i].tensor.copy_(buffers[i]);
    return report;
  };
  profile::reset_peak(gpu);
  report.before = now(fixed);
  if (!stages_.whole()) {  // the whole step's passes: how many micro-batches are held at once is part of the answer
    fewest_ = all.rows(), counted_ = static_cast<double>(all.counted_in_all() * processes_.batch_count());
    gradients(all, 1, *profile::make_step_timer(gpu), &meter);
    report.activations = meter.peak();
    report.peak_backward = peak(fixed + report.gradients + report.activations);
    return measured();
  }
  auto loss = forward(part, {1, 0, static_cast<double>(parts_here_)}, stages_.stage(0), {}, &meter).states;
  report.activations = meter.bytes();
  report.peak_forward = peak(fixed + report.activations);
  report.after_forward = now(fixed + report.activations);
  profile::reset_peak(gpu);
  backward({loss}, {}, 0, 1, 0);
  loss.reset();
  report.peak_backward = peak(fixed + report.gradients + meter.peak());
  return measured();
}

}  // namespace hyperion::train
