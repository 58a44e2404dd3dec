// Some pictures of the validation half with what the model takes them for.
#pragma once
#include "hyperion/data/source.h"
#include "hyperion/models/model.h"
#include "hyperion/report/predictions.h"
#include "hyperion/train/config.h"

namespace hyperion::parallel {
class DataParallel;
}

namespace hyperion::train {

// Up to 16 images, spread over the half; small enough for a page. `weights`: of a model that is cut among processes,
// which then all must ask; else null.
std::vector<report::Prediction> predict_images(models::Model& model, at::Device device, const data::Split& split,
                                               const RunConfig& config, parallel::DataParallel* weights);

}  // namespace hyperion::train
