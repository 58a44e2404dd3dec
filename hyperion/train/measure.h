// A model measured on a prepared set that need not be the one it was trained on.
#pragma once
#include <string>
#include <vector>

#include "hyperion/data/measured_set.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/train/evaluate.h"

namespace hyperion::train {

struct MeasureSize {
  int64_t length = 0;   // tokens at a time
  int64_t batches = 0;  // of kMeasuredBatch samples; 0: all
};
constexpr int64_t kMeasuredBatch = 32;

// Throws ConfigError where the set's tokens, classes or lengths are not the model's, which messages call `name`.
// Returns what could not be checked, a line each.
std::vector<std::string> check_measurable(base::FileSystem& files, const data::MeasuredSet& set,
                                          const interop::OpenedModel& opened, const std::string& name,
                                          const MeasureSize& size);

// Images become numbers as the model's own processor says, else as the set does.
Evaluation measure(const interop::OpenedModel& opened, at::Device device, const data::MeasuredSet& set,
                   const MeasureSize& size);

}  // namespace hyperion::train
