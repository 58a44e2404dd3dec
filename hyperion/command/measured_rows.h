// What `hyperion eval --set` found, as a table or JSON.
#pragma once
#include <string>
#include <vector>

#include "hyperion/data/measured_set.h"
#include "hyperion/train/measure.h"

namespace hyperion::cli {

struct MeasuredRow {
  std::string model;
  std::string form;     // "base", "adapter", "merged"; empty: the model itself
  std::string adapter;  // its name; empty: none
  int64_t step = 0;
  std::string precision;  // of the weights: "bf16"
  bool quantized = false;
  train::Evaluation result;
};

std::string measured_table(const data::MeasuredSet& set, const train::MeasureSize& size,
                           const std::vector<MeasuredRow>& rows);
std::string measured_json(const data::MeasuredSet& set, const train::MeasureSize& size,
                          const std::vector<MeasuredRow>& rows);

}  // namespace hyperion::cli
