// All settings of a run: one struct a folder, gathered here, described once.
#pragma once
#include <cstdint>
#include <string>

#include "hyperion/base/config.h"
#include "hyperion/base/files.h"
#include "hyperion/data/source.h"
#include "hyperion/models/gpt2.h"
#include "hyperion/optim/config.h"

namespace hyperion::train {

struct LoopConfig {
  int64_t steps = 500, seed = 1, batch = 32, accumulate = 1, length = 128, threads = 0, log_every = 10;
  std::string device = "auto", precision = "fp32", optimize = "fused";
  bool deterministic = false;
};
struct EvalConfig {
  int64_t every = 100, batches = 8;
};
struct CheckpointConfig {
  int64_t every = 100, keep = 2;
};

struct RunConfig {
  LoopConfig train;
  models::Gpt2Config model;
  data::DataConfig data;
  optim::OptimConfig optim;
  EvalConfig eval;
  CheckpointConfig checkpoint;
};

// Settings bound to the members of `config`, which must outlive them.
base::Settings bind(RunConfig& config);

// Throws ConfigError where two settings contradict each other.
void check(const RunConfig& config);

}  // namespace hyperion::train
