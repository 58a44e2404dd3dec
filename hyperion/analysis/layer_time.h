// How long a step was in each of the model's blocks, forward and backward, as the program's spans tell it: on the
// device where kernels were recorded, else on the first thread.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "hyperion/analysis/analysis_tables.h"
#include "hyperion/analysis/timeline.h"

namespace hyperion::analysis {

struct LayerRow {
  std::string name;  // "transformer.h.3", "outside blocks", "communication", "input", "waiting"
  bool block = false;
  std::array<int64_t, kPhases> times = {};  // nanoseconds, by Phase
  int64_t total() const;
};

struct LayerTimes {
  int64_t rank = 0, steps = 1;
  bool on_device = false;
  std::vector<LayerRow> rows;  // blocks in their order, then the rest
  int64_t idle = 0;            // nothing ran, or nothing is recorded
  int64_t at_once = 0;         // of a device: streams ran beside each other, so that rows are longer than the step
  int64_t step() const;        // rows + idle - at_once; all nanoseconds of all steps
};
// Rows are empty where no span tells of a block.
LayerTimes layer_times(const Timeline& timeline);

// Whether a trace has spans of the program.
bool has_own_spans(const trace::Trace& trace);

// Means of the ranks that have a layer; at most `top` blocks, the longest. Empty where none has any.
std::vector<Table> layer_tables(const std::vector<LayerTimes>& ranks, size_t top);
base::Json layers_json(const std::vector<LayerTimes>& ranks);

}  // namespace hyperion::analysis
