// `hyperion bench floor`: how far a training step of a transformer is from what its parts need at least, by cause.
//
// The floor is the best measured time of each matrix product and of attention, alone, rested and replayed from a graph,
// so that neither launches nor a clock that power holds down cost anything; and the bytes that the rest must move once,
// at the measured rate of a large copy. A whole step can come near the sum, not below it. The step beside it is of the
// same run, split by what its kernels are for.
//
// Beside adapters the weights are frozen: a linear has its forward and its input's gradient, and no gradient of its
// weight; nor of the input of the lowest linears that have an adapter, below which nothing is trained. What an adapter
// adds into the output and into the input's gradient is more operations of those products, at their rate. What is left
// of it must pass over tensors of its own: the input into A forward and for A's gradient, and the output's gradient,
// once for both B's gradient and the low one; these take as long as their bytes, or their operations where ranks are
// high. Weights in 4 bits are read and written whole for each product. Modules trained whole beside adapters count in
// the update alone; attention and norms with their backward in every block, also below the lowest adapter.
//
// Where documents share rows, attention is that within each of them and its floor the library's over variable lengths;
// padding is not attended to. All else is made of every place in a row, padding too, as the step makes it.
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
  // Where documents share rows: the tokens of each, by batch of those that the bench takes in turns.
  std::vector<std::vector<int64_t>> documents = {};
  int64_t tokens() const { return batch * length; }
};
// Throws ConfigError where the workload is no transformer of equal blocks.
BlockSizes block_sizes(const Workload& workload, const train::RunConfig& config);

// Of the pairs of tokens that share a row those that share a document, in the mean of the batches.
double part_within_documents(const BlockSizes& sizes);

// Linears over one input, side by side, in all blocks: q, k and v; o; gate and up; down. Or the language head.
struct FloorLinears {
  int64_t in = 0, out = 0;
  int64_t forward = 0, to_input = 0, to_weight = 0;  // products of a step
  bool quantized = false;
  // The adapters beside them, summed up over the blocks.
  int64_t lowered = 0, adapted_out = 0;   // inputs that go into an A, and widths of outputs that a B adds to
  int64_t ranks = 0, ranks_to_input = 0;  // and those of them that add to a gradient of the input
  int64_t raised = 0;                     // rank times width of the output
};
struct FloorWork {
  std::vector<FloorLinears> linears;
  int64_t trained = 0;  // parameters
};
FloorWork floor_work(const Workload& workload, const train::RunConfig& config);

// Milliseconds of one product of each kind, alone.
struct ProductTimes {
  double forward = 0, to_input = 0, to_weight = 0;
};
double products_ms(const FloorLinears& linears, const ProductTimes& times);
// What adapters add to it, where their own passes take `passes_ms` by their bytes.
double adapters_ms(const FloorLinears& linears, const ProductTimes& times, double passes_ms);
double adapter_bytes(const FloorLinears& linears, int64_t tokens, int64_t element);
// Bytes of making weights whole that are in 4 bits, for each product.
double whole_bytes(const FloorLinears& linears, int64_t element);

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
  double adapters = 0, wholes = 0;  // of products: what adapters add; of passing: making 4-bit weights whole
  double documents = 0;             // a step, in the mean; 0: rows are whole
  double within = 1;                // part_within_documents
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
