// What is measured of a step and of an evaluation.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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
  // Of the last save before this step: how long training waited for it, how long it was being written (in the
  // background perhaps, and then known some steps later), and why it failed.
  std::optional<double> checkpoint_blocked_s = {}, checkpoint_write_s = {};
  std::optional<std::string> checkpoint_failure = {};
  std::optional<double> unix_s = {};  // when it ended, in seconds since 1970
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
  std::optional<double> unix_s = {};                                  // when it ended, in seconds since 1970
};

}  // namespace hyperion::report
