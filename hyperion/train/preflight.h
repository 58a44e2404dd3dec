// What can be known to fail before anything is made or allocated.
#pragma once
#include <c10/core/Device.h>

#include <cstdint>

#include "hyperion/train/config.h"

namespace hyperion::train {

// Bytes that training surely holds at once; activations only as far as they are certain, so a little more is used in
// truth. Of one process where several share the batch and what parallel.zero cuts.
struct MemoryNeed {
  double weights = 0, gradients = 0, masters = 0, moments = 0, activations = 0;
  double all() const { return weights + gradients + masters + moments + activations; }
};
MemoryNeed memory_need(const RunConfig& config, const strategy::ModelShape& shape, int64_t processes = 1);

// What GPUs of this compute capability (90 for 9.0; 0: a CPU) can do: before 8.0 bf16 becomes fp16, and the line that
// says so is returned; fp8 before 8.9 is a PreflightError. What tf32 and fp8 are on a CPU is a line too.
std::string settle_precision(LoopConfig& train, int capability);

// Pixels as model.from saw them, normalised, resized and cut, where the recipe leaves that open and the model says so;
// else those of the data.
// Returns what is to be told, or nothing.
std::string settle_normalisation(base::FileSystem& files, RunConfig& config);

// Images as large as model.from saw them, where it is a ResNet, which takes any, and the recipe leaves that open.
// Returns what is to be told, or nothing.
std::string settle_image(base::FileSystem& files, RunConfig& config);

// Throws PreflightError with the estimate and what there is when the run cannot fit on the device.
void check_memory(const RunConfig& config, const strategy::ModelShape& shape, c10::Device device,
                  int64_t processes = 1);

// A sentence where the model's config.json (of tokens) drops attention's weights in training, which is not done here:
// they are never held. Else empty.
std::string unused_dropout(const std::string& model);

// A sentence where that precision takes longer than fp32 by more than noise; else empty. `has_products`: the CPU's
// features name them; `slowdown` as kernels::cpu_slowdown measures it.
std::string slow_precision(const std::string& precision, bool has_products, double slowdown);
// The same of the precision of a run on this device, which is tried for a moment; `model` as config.json.
std::string slow_precision_here(const RunConfig& config, const std::string& model, const strategy::ModelShape& shape,
                                c10::Device device);

}  // namespace hyperion::train
