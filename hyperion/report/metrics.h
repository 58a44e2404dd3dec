// What a run measured: written as it happens, one line a record, and read back for pages and `runs show`.
//
// metrics.jsonl (rank 0): one object a step with the keys below in this order, and one object with a `split` an
// evaluation, and "samples": [{"prompt", "text"}, ...] in it where there are prompts. What cannot be had is null. A
// loss or gradient norm that is not finite is null too, beside "nonfinite": true. metrics.rank-N.csv (each rank): a
// header, then one row a step; what cannot be had is empty, else nan and inf are written so.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/base/files.h"

namespace hyperion::report {

struct StepRecord {
  int64_t step = 0;  // from 1
  double loss = 0, grad_norm = 0, lr = 0, step_ms = 0;
  int64_t tokens = 0;  // of this step, over all ranks
  double tokens_per_s = 0;
  std::optional<double> tflops, mfu;                                      // mfu: 0.4 is 40%
  std::optional<int64_t> memory_allocated, memory_reserved, memory_peak;  // bytes
  double data_wait_ms = 0, forward_ms = 0, backward_ms = 0, optimizer_ms = 0;
  std::optional<double> comm_ms, comm_total_ms;  // exposed, and all of it
  std::optional<int64_t> comm_bytes;             // that this rank sent
  int64_t samples = 0;                           // of the run so far
  std::optional<double> accuracy = {};           // part of the targets that were the likeliest
  // Of mixtures of experts: the busiest expert of any layer as a multiple of an even share; part of the experts that
  // got no token; part of the choices that found no room (with a capacity).
  std::optional<double> expert_busiest = {}, expert_idle = {}, expert_dropped = {};
  std::string sample_hash = {};             // of what those samples held, 16 hexadecimal digits
  std::optional<double> stopped_ms = {};    // that this rank did not run at all
  std::optional<std::string> held_up = {};  // by what, where that is known: "compute of rank 3"
  // This rank's GPU, means over the step: MHz, watts, degrees, percent of the time; by what its clock is kept low; the
  // joules of the step.
  std::optional<double> gpu_clock = {}, gpu_power = {}, gpu_temperature = {}, gpu_busy = {};
  std::optional<std::string> gpu_slowed = {};
  std::optional<double> energy = {};
};

// What the model made of a prompt.
struct Continuation {
  std::string prompt, text;
};

struct EvalRecord {
  int64_t step = 0;
  std::string split;  // "validation"
  double loss = 0;
  std::optional<double> perplexity = {}, token_accuracy = {}, answers_right = {};  // of language; 0.93 is 93%
  std::optional<double> top_1 = {}, top_5 = {};                                    // of images
  std::optional<int64_t> best_step = {};  // of the lowest loss so far, whose checkpoint is kept
  std::optional<int64_t> documents_cut = {}, documents_dropped = {};  // of an epoch, for being too long
  std::optional<std::string> early_stop = {};                         // why the run ends here, before its last step
  std::vector<Continuation> samples = {};                             // of eval.prompts
};

// Of a run's file: some million steps. A longer one is refused before memory is taken for it.
constexpr uint64_t kLongestMetrics = uint64_t{4} << 30;

// A line is in the operating system's hands when write returns: kill -9 loses none. Nothing is synced, so a power cut
// may lose the last ones. A write that throws may leave a part of a line; the next writer of the run drops it.
class MetricsWriter {
 public:
  // Opens or creates the files in folder `run`. Of what is there it keeps whole records up to and with step
  // `last_step_to_keep` (a fresh run: 0), of evaluations those before `evaluations_before`, and replaces a file
  // atomically where something had to go. Lines that are no records or out of their order, and steps of metrics.jsonl
  // that have none, give a warning.
  MetricsWriter(base::FileSystem& files, const base::Path& run, int rank, int64_t last_step_to_keep,
                int64_t evaluations_before = INT64_MAX);

  void write(const StepRecord& record);
  void write(const EvalRecord& record);  // ranks other than 0 ignore it

 private:
  std::unique_ptr<base::WritableFile> jsonl_, csv_;  // jsonl_ is null but on rank 0
};

struct Metrics {
  std::vector<StepRecord> steps;
  std::vector<EvalRecord> evaluations;
};

// Reads the text of a metrics.jsonl; null numbers come back as NaN or nullopt. A torn last line is skipped. Any other
// line that is no record is a CorruptError naming `place` and the line.
Metrics read_metrics(std::string_view text, const std::string& place = "metrics.jsonl");

}  // namespace hyperion::report
