// Samples as tensors: what the step and the evaluation take.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

#include "hyperion/data/cursor.h"
#include "hyperion/models/model.h"
#include "hyperion/strategy/model_shape.h"
#include "hyperion/train/config.h"

namespace hyperion::train {

// On the host: token ids and the ones after them, int64 [rows, length] both; or fp32 pixels [rows, channels, height,
// width] and int64 labels [rows].
struct Batch {
  at::Tensor inputs, targets;
};

using LossFunction = std::function<at::Tensor(const at::Tensor& outputs, const at::Tensor& targets)>;

// The data of a run, with samples of the size its model takes.
data::Split open_split(const RunConfig& config, const strategy::ModelShape& shape);

// The next train.batch samples; advances the cursor.
Batch next_batch(const data::Split& split, data::Cursor& cursor, const RunConfig& config);

// Samples first .. first + count - 1 of the validation half, in their own order.
Batch validation_batch(const data::Split& split, int64_t first, int64_t count, const RunConfig& config);
int64_t validation_samples(const data::Split& split);

// Pixels take the compute type, channels last.
Batch to_device(const Batch& batch, at::Device device, at::ScalarType type);

// Throws ConfigError where the model cannot take these samples: tokens for images, another size, too few classes.
void check_fit(const data::Split& split, const strategy::ModelShape& shape, const RunConfig& config);

}  // namespace hyperion::train
