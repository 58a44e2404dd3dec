// Some pictures of the validation half with what the model takes them for.
#pragma once
#include "hyperion/data/source.h"
#include "hyperion/models/model.h"
#include "hyperion/report/predictions.h"
#include "hyperion/train/config.h"

namespace hyperion::parallel {
class TrainedWeights;
}

namespace hyperion::train {

// Up to 16 images, spread over the half; small enough for a page. Where the weights are cut among
// processes, all must ask.
std::vector<report::Prediction> predict_images(models::Model& model, at::Device device, const data::Split& split,
                                               const RunConfig& config, parallel::TrainedWeights& weights);

}  // namespace hyperion::train
