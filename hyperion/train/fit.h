// The step in a loop, for programs that bring their own model and batches: no run folder, no recipe.
#pragma once
#include <functional>

#include "hyperion/models/model.h"
#include "hyperion/train/feed.h"

namespace hyperion::train {

// Trains for train.steps on what `batch(step)` gives, train.batch rows each, and shows the step line. The loss is the
// cross entropy of the model's logits unless `loss(outputs, targets)` says another. Takes precision, device,
// accumulation, clipping, rule and schedule from the config. Returns the mean loss of the last tenth of the steps.
double fit(models::Model& model, const RunConfig& config, const std::function<Batch(int64_t step)>& batch,
           const LossFunction& loss = nullptr);

}  // namespace hyperion::train
