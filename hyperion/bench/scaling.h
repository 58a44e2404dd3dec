// `hyperion bench scaling`: one recipe trained on several numbers of ranks and in several modes, each as a job of its
// own (`hyperion launch`), and what their per-rank tables say: speedup, efficiency, memory, bytes, time spent on
// others. In several layouts: layouts.h.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/bench/outcome.h"

namespace hyperion::bench {

const std::vector<std::string>& scaling_modes();  // ddp, zero1, zero2, zero3, zeropp

struct ScalingOptions {
  std::string recipe;                 // empty: a GPT-2 of a 200th of GPT-2 Large, on made text
  std::vector<int64_t> ranks;         // empty: 1, 2 and 4
  std::vector<std::string> modes;     // empty: ddp, zero2 and zero3
  std::string layouts;                // in place of both: "dp=4;dp=2,pp=2,zero=1"
  std::vector<std::string> optimize;  // each layout in each of these modes; empty: the recipe's
  std::vector<int64_t> batches;       // samples a rank; empty: the recipe's batch, shared by all ranks
  int64_t steps = 16;                 // the first quarter, two at least, warms up
  int64_t threads = 0;                // a rank; 0: the cores shared by the most ranks, the same for every job
  std::string device = "auto";
  std::vector<std::string> settings;  // "section.key=value"
  base::Path folder;                  // of the runs, their logs and the results
};

struct ScalingRow {
  std::string mode;
  int64_t ranks = 1;
  int64_t batch = 0;        // samples a rank; 0: the recipe's batch, shared
  std::string failed;       // why there are no figures; empty: there are
  profile::Spread step;     // seconds, of the slowest rank
  double tokens_s = 0;      // of all ranks; of images, images
  double computing = 0;     // seconds a step: what was not waiting for others
  double exposed = 0;       // seconds a step that a rank waited for others, the mean of ranks
  double under_way = 0;     // seconds a step that something was sent or received, the mean of ranks
  double bytes = 0;         // that a rank sent a step, the mean of ranks
  int64_t state = 0;        // bytes of weights, gradients and optimizer on a rank
  int64_t activations = 0;  // bytes held between forward and backward
  int64_t peak = 0;         // bytes of the process (on a GPU: of the allocator), the largest of ranks
  double loss = 0;          // of the last step

  double hidden() const;  // the part of `under_way` that nobody waited for; 0 where there is none
};

struct ScalingResult {
  std::string what, device;
  int64_t steps = 0, threads = 0, cores = 0;
  std::vector<ScalingRow> rows;
};

// Of --ranks and --modes. Throws ConfigError for options that cannot be meant. A job that fails becomes a row that says
// why.
ScalingResult run_scaling_bench(const ScalingOptions& options);

// One training among them, whose run is `folder`/runs/`name`.
struct ScalingJob {
  std::string name;
  int64_t ranks = 1;
  std::vector<std::string> flags = {};  // of `hyperion train`, beside those of all
};
// Runs it to its end. Returns why it failed; empty: it did not.
std::string run_scaling_job(const ScalingOptions& options, const base::Path& recipe, int64_t threads,
                            const ScalingJob& job);
void check_scaling(const ScalingOptions& options);         // throws ConfigError
base::Path scaling_recipe(const ScalingOptions& options);  // where none was named it is written
int64_t scaling_warm_up(int64_t steps);                    // of so many, those that do not count

// A row's figures from the metrics.rank-N.csv of all ranks, without the first `warm_up` steps. Throws CorruptError
// where a column is missing.
void read_rank_tables(ScalingRow& row, const std::vector<std::string>& tables, int64_t warm_up);

// What a row is compared with: the fewest ranks, of its own mode (one process has none) and batch. Null: there is none.
const ScalingRow* base_of(const ScalingResult& result, const ScalingRow& row);

Outcome scaling_outcome(const ScalingResult& result);

}  // namespace hyperion::bench
