// The step in a loop, for programs that bring their own model and batches: no run folder, no recipe.
#pragma once
#include <functional>

#include "hyperion/models/model.h"
#include "hyperion/train/feed.h"

namespace hyperion::parallel {
class Processes;
}

namespace hyperion::train {

// Trains for train.steps on what `batch(step)` gives, train.batch rows each, and shows the step line. The loss is the
// cross entropy of the model's logits unless `loss(outputs, targets)` says another. Takes precision, device,
// accumulation, clipping, rule and schedule from the config. Returns the mean loss of the last tenth of the steps.
// Each of several processes calls it with the same model and config, and gives its share of the rows; the first shows.
double fit(models::Model& model, const RunConfig& config, const std::function<Batch(int64_t step)>& batch,
           const LossFunction& loss = nullptr, parallel::Processes* processes = nullptr);

}  // namespace hyperion::train
