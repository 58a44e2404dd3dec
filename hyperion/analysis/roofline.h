// What each part of a model computes and moves in a step, beside how long that took and what the machine could do.
#pragma once
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "hyperion/analysis/layer_time.h"

namespace hyperion::analysis {

// Of one rank and step. Multiply and add count as two; bytes are the least that must move: weights, gradients, what
// comes in and what goes out.
struct PartWork {
  double flops = 0, bytes = 0;
};
// By Phase.
using PhaseWork = std::array<PartWork, kPhases>;

// What the work of a block is, by its name ("transformer.h.3"); of all that lies outside of blocks, kOutsideBlocks.
using WorkOf = std::function<PhaseWork(const std::string& name)>;

struct Ceiling {
  double tflops = 0;     // 0: not known
  double bandwidth = 0;  // GB/s; likewise
};

struct RooflineRow {
  std::string name;
  Phase phase = Phase::none;
  double ms = 0;  // measured, of a step; mean of the ranks that have it
  PartWork work;
  double tflops() const { return ms > 0 ? work.flops / ms * 1e-9 : 0; }
  double intensity() const { return work.bytes > 0 ? work.flops / work.bytes : 0; }
  bool by_memory(const Ceiling& ceiling) const;   // what bounds it
  double least_ms(const Ceiling& ceiling) const;  // 0: not known
  double percent(const Ceiling& ceiling) const;   // of the ceiling
};

struct Roofline {
  Ceiling ceiling;
  std::string machine;  // "NVIDIA H200, bf16"
  bool on_device = false;
  double step_ms = 0;             // of a rank
  std::vector<RooflineRow> rows;  // blocks in their order, what is outside of them last; with work alone
  double elsewhere_ms = 0;        // of a step: input, communication, waits, the update, idle
  double idle_ms = 0, communication_ms = 0, input_ms = 0;  // of that
};
Roofline roofline(const std::vector<LayerTimes>& ranks, const WorkOf& work, const Ceiling& ceiling,
                  std::string machine);

// Blocks that have the same work and place stand in one row where there are more than `top`.
std::vector<Table> roofline_tables(const Roofline& found, size_t top);
// What to do next, what costs most first.
std::vector<std::string> roofline_advice(const Roofline& found);
base::Json roofline_json(const Roofline& found);

}  // namespace hyperion::analysis
