#include "hyperion/train/preflight.h"

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/host/gpu.h"
#include "hyperion/host/memory.h"

namespace hyperion::train {
namespace {

using base::format;

std::string bytes(double count) { return base::bytes_text(static_cast<uint64_t>(std::min(count, 1e18))); }

// Which GPU is CUDA's first is not known here: the largest is the kindest guess. 0: unknown.
double gpu_memory() {
  uint64_t largest = 0;
  for (const auto& gpu : host::survey_gpus().gpus) largest = std::max(largest, gpu.memory_total.value_or(0));
  return static_cast<double>(largest);
}

void refuse_if_short(const MemoryNeed& need, double available, const char* where) {
  if (available <= 0 || need.all() <= available) return;
  throw base::PreflightError(
      format("training needs at least {} of memory, and {} has {} (weights {}, gradients {}, masters {}, moments {}, "
             "activations {})",
             bytes(need.all()), where, bytes(available), bytes(need.weights), bytes(need.gradients),
             bytes(need.masters), bytes(need.moments), bytes(need.activations)),
      need.activations > 0.5 * need.all()
          ? "use a smaller train.batch or train.length, or a larger train.accumulate"
          : "use a smaller model.width, model.layers, model.context or model.vocabulary");
}

}  // namespace

MemoryNeed memory_need(const RunConfig& config) {
  const auto parameters = static_cast<double>(models::shape_of(config.model, config.train.length).parameters);
  const bool narrow = config.train.precision == "bf16";
  const double element = narrow ? 2 : 4;
  MemoryNeed need;
  need.weights = element * parameters;
  need.gradients = (narrow && config.train.accumulate > 1 ? 4 : element) * parameters;
  need.masters = narrow ? 4 * parameters : 0;
  need.moments = (config.optim.rule == "adamw" ? 8 : 4) * parameters;
  // Of one part of the batch: logits and their gradient, and each block's two residual sums and wide inner layer.
  const double tokens =
      static_cast<double>(config.train.batch / config.train.accumulate) * static_cast<double>(config.train.length);
  const double block = 6.0 * static_cast<double>(config.model.layers) * static_cast<double>(config.model.width);
  need.activations = tokens * element * (2.0 * static_cast<double>(config.model.vocabulary) + block);
  return need;
}

void check_memory(const RunConfig& config, c10::Device device) {
  const MemoryNeed need = memory_need(config);
  const auto host = static_cast<double>(host::memory().usable());
  if (device.is_cpu()) return refuse_if_short(need, host, "this machine");
  refuse_if_short(need, gpu_memory(), "the GPU");
  MemoryNeed start;  // weights are initialised in fp32 on the CPU
  start.weights = 4 * static_cast<double>(models::shape_of(config.model, config.train.length).parameters);
  refuse_if_short(start, host, "this machine");
}

}  // namespace hyperion::train
