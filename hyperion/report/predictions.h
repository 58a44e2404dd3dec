// predictions.json: some validation images with what the model took them for, so that a run's page can show them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hyperion/base/files.h"

namespace hyperion::report {

struct Prediction {
  std::string png;               // a small picture, in base64
  std::string predicted, truth;  // names of classes
  double share = 0;              // that the model gave to the one it predicted
};

struct PredictionRecord {
  int64_t step = 0;
  std::vector<Prediction> pictures;
};

void write_predictions(base::FileSystem& files, const base::Path& run, const PredictionRecord& record);
// Nothing where the run has none. Throws CorruptError where the file is not one of these.
std::optional<PredictionRecord> read_predictions(base::FileSystem& files, const base::Path& run);

}  // namespace hyperion::report
