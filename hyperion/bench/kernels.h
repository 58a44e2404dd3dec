// `hyperion bench kernels`: each of our operations at small, medium and large shapes, against what the machine can do
// and against PyTorch's own.
//
// The ceiling is measured in the same run: a copy that moves as many bytes, and for products also the rate of a large
// one. On a GPU calls are replayed from a graph, so that launching them costs nothing; the backward is timed alone.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hyperion/base/error.h"
#include "hyperion/bench/kernel_operations.h"
#include "hyperion/bench/outcome.h"
#include "hyperion/profile/timing.h"

namespace hyperion::bench {

struct KernelBenchOptions {
  std::vector<std::string> only;  // operations; empty: all
  std::vector<std::string> sizes = {"small", "medium", "large"};
  std::vector<std::string> shapes;  // as 4x512x1024, in place of the sizes; of the operations that follow them
  std::map<std::string, std::vector<int64_t>> cuts;  // by axis: also as one of so many processes, of what it cuts
  std::vector<std::string> dtypes;                   // of fp32, bf16, fp16; empty: bf16 on a GPU, fp32 on a CPU
  std::string device = "auto";
  double seconds = 0.2;  // for each figure
};

struct KernelRow {
  std::string operation, pass, size, dtype, shape;  // pass: forward, backward, both
  Cost cost;
  bool matrix = false;
  profile::Spread ours, aten;  // seconds a call; no repeats: PyTorch has none
  double ceiling = 0;          // seconds that the machine would need at the measured ceiling
  int64_t shards = 1;
  double percent_of_uncut = 0;  // of a shard: its percent of the ceiling against that of the whole; 0: not known
  double extra = -1;            // bytes of memory that a call holds at most beside its inputs; -1: not known, on a CPU

  bool bound_by_products = false;
  double rate() const;     // GB/s, or TFLOP/s where bound by products
  double percent() const;  // of the ceiling
  double ratio() const;    // PyTorch's time over ours; 0: it has none
  std::string name() const;
};

// One operation of a GPT-2's feed-forward layer, as fused blocks run it.
struct MlpRow {
  std::string layer, size, dtype, shape, pass, step;  // layer: mlp, or mlp dropout 0.1
  profile::Spread ours;
  double share = 0;  // of the layer's time, forward and backward together
};

struct KernelResult {
  std::string device_name;
  std::vector<KernelRow> rows;
  std::vector<MlpRow> mlp;  // in the order they run; measured with the `mlp_` operations
  // The roofs: the best copy, in GB/s, and the best product of each type, in TFLOP/s.
  double copy_gb_s = 0;
  std::vector<std::pair<std::string, double>> product_tflops;
  std::vector<std::string> notes;                 // what was left out, what could not be captured
  std::optional<base::Interrupted> stopped = {};  // the rows are those that were done by then
};

void check_kernel_words(const KernelBenchOptions& options);  // throws ConfigError for words that name nothing
// The same; shows a progress line.
KernelResult run_kernel_bench(const KernelBenchOptions& options);

Outcome kernel_outcome(const KernelResult& result);

// `hyperion bench roofline`: from the JSON that the above wrote. Throws CorruptError naming `place` where it is
// another.
Outcome roofline_outcome(const std::string& kernels_json, const std::string& place);

}  // namespace hyperion::bench
