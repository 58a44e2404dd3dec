// `hyperion bench floor`: how far a training step of a transformer is from what its parts need at least, by cause.
//
// The floor is the best measured time of each matrix product and of attention, alone, rested and replayed from a graph,
// so that neither launches nor a clock that power holds down cost anything; and the bytes that the rest must move once,
// at the measured rate of a large copy. A whole step can come near the sum, not below it. The step beside it is of the
// same run, split by what its kernels are for.
#pragma once
#include <string>
#include <vector>

#include "hyperion/bench/outcome.h"
#include "hyperion/bench/train.h"

namespace hyperion::bench {

// What the floor reckons with.
struct BlockSizes {
  int64_t batch = 0, length = 0, layers = 0, width = 0, heads = 0, key_heads = 0, head_width = 0, inner = 0;
  int64_t vocabulary = 0;  // of a language model's head; 0: too small to count
  bool gated = false, causal = true;
  int64_t tokens() const { return batch * length; }
};
// Throws ConfigError where the workload is no transformer of equal blocks.
BlockSizes block_sizes(const Workload& workload, const train::RunConfig& config);

// Bytes that norms, activations and the loss must read and write in a step, `element` a number: each norm with its
// residual 3 [tokens, width] forward and 4 backward; the activation its inputs and output, twice; the loss the logits
// three times.
double passing_bytes(const BlockSizes& sizes, int64_t element);
// Bytes of the norm of the gradients and AdamW over fp32 masters.
double update_bytes(int64_t parameters, int64_t element);

// Milliseconds a step.
struct Floor {
  std::string workload, precision;
  double copy_gb_s = 0;
  double products = 0, attention = 0, passing = 0, update = 0;
  double sum() const { return products + attention + passing + update; }
};

struct FloorResult {
  std::vector<Floor> floors;  // one a workload
  TrainResult steps;          // traced
};

// Shows progress. The options' peers are not asked for.
FloorResult run_floor_bench(TrainBenchOptions options);

Outcome floor_outcome(const FloorResult& result);

}  // namespace hyperion::bench
