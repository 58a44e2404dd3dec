// All settings of a run: one struct a folder, gathered here, described once.
#pragma once
#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "hyperion/base/config.h"
#include "hyperion/base/files.h"
#include "hyperion/blocks/fp8_options.h"
#include "hyperion/data/prepare.h"
#include "hyperion/data/source.h"
#include "hyperion/device/device.h"
#include "hyperion/models/recipe.h"
#include "hyperion/nn/lora.h"
#include "hyperion/optim/config.h"
#include "hyperion/parallel/config.h"
#include "hyperion/strategy/model_shape.h"
#include "hyperion/train/memory.h"

namespace hyperion::train {

// Of weights and activations; masters are always fp32.
enum class Precision {
  fp32,
  tf32,  // fp32 with a GPU's faster products
  bf16,
  fp16,
  fp8,  // bf16 with the products of transformer blocks in 8 bits
};
constexpr auto words_of(Precision) { return std::array{"fp32", "tf32", "bf16", "fp16", "fp8"}; }

enum class Optimize {
  reference,  // plain operations
  fused,
  graph,  // the whole step as one GPU graph
  max,    // and each product's fastest way, measured
};
constexpr auto words_of(Optimize) { return std::array{"reference", "fused", "graph", "max"}; }
inline bool records_graphs(Optimize optimize) { return optimize == Optimize::graph || optimize == Optimize::max; }

struct LoopConfig {
  int64_t steps = 500, epochs = 0, seed = 1, batch = 32, batch_per_rank = 0, accumulate = 1, length = 128, threads = 0,
          log_every = 10, patience = 0;
  device::DeviceChoice device = device::DeviceChoice::automatic;
  Precision precision = Precision::fp32;
  Optimize optimize = Optimize::fused;
  double loss_scale = 65536, min_delta = 0;
  bool deterministic = false, accuracy = false, watch = true;
  std::string profile;                                // profile::TracePlan
  std::vector<std::string> report_to{"tensorboard"};  // report::MetricTool, or "none" alone
};
// fp32 for fp32 and tf32, bf16 for fp8.
at::ScalarType compute_type(Precision precision);
const char* precision_name(at::ScalarType type);  // of weights: fp32, bf16 or fp16

struct Fp8Config {
  blocks::Fp8Options options;
  bool measure = true;
};

struct EvalConfig {
  int64_t every = 100, batches = 8, prompt_tokens = 32;
  std::vector<std::string> prompts;
};
enum class Background { automatic, on, off };  // automatic: where a GPU trains
constexpr auto words_of(Background) { return std::array{"auto", "on", "off"}; }

struct CheckpointConfig {
  int64_t every = 100, keep = 2, keep_every = 0;
  bool best = true;
  Background async = Background::automatic;
};

struct RunConfig {
  LoopConfig train;
  Fp8Config fp8;
  models::Recipe model;
  nn::LoraSettings lora;
  data::PrepareConfig prepare;
  data::DataConfig data;
  optim::OptimConfig optim;
  EvalConfig eval;
  CheckpointConfig checkpoint;
  MemoryConfig memory;
  parallel::ParallelConfig parallel;
};

// Settings bound to the members of `config`, which must outlive them.
base::Settings bind(RunConfig& config);

// The text of the config.json of the model that is trained: the recipe's, or that of model.from.
std::string model_config(base::FileSystem& files, const RunConfig& config);

// What an adapter stands beside: the weights of model.from or, in benches, random ones.
enum class AdaptedWeights { given, random };
// Throws ConfigError where two settings contradict each other.
void check(const RunConfig& config, AdaptedWeights adapted = AdaptedWeights::given);
// And where they contradict the model; `check` does this too where the recipe describes the model itself.
void check(const RunConfig& config, const strategy::ModelShape& shape);
// And where a training that begins, or goes on, with it would have another learning rate than it says.
void check_schedule(const RunConfig& config);
// Each process must have as many samples of a step as any other; else some have one more.
bool needs_equal_shares(const RunConfig& config);
// And where so many processes cannot share the work as it is set.
void check_processes(const RunConfig& config, int64_t processes);

}  // namespace hyperion::train
