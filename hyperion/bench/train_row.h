// One measured row of `bench train`.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hyperion/profile/timing.h"
#include "hyperion/profile/trace.h"

namespace hyperion::bench {

struct TrainRow {
  std::string workload, mode, precision;  // mode: "fused", "torch compile"
  std::string failed;                     // why there are no figures; empty: there are
  std::string ran_as;                     // the mode that ran in its place, or how a peer ran; empty: as it says
  double first_step = 0;                  // seconds
  profile::Spread step;                   // seconds a step, of blocks
  int64_t block_steps = 0;                // of each block
  int64_t parameters = 0, trained = 0;    // the second: of them, or of an adapter beside them
  double samples_s = 0, tokens_s = 0;     // tokens 0: images
  double tflops = 0, mfu = 0;             // TFLOP/s, and its part of the datasheet's peak; 0: not known
  int64_t peak = 0;                       // bytes; 0: not known
  int64_t clock = 0;                      // MHz of a GPU's multiprocessors while steps ran; 0: not known
  double first_loss = 0, last_loss = 0;
  struct Fp8Layers {
    std::string name;  // of layers that differ in their block alone: "transformer.h.*.attn.c_attn"
    int64_t count = 0, rows = 0, in = 0, out = 0;
    double wide = 0, narrow = 0, rounding = 0;  // microseconds a step, of one
    bool taken = false;
  };
  std::vector<Fp8Layers> fp8;
  std::optional<profile::Gaps> gaps;        // between kernels of kTracedSteps, where a trace was taken
  std::optional<profile::KindTimes> kinds;  // milliseconds a step by what kernels are for; of a GPU
  bool peer() const { return mode.starts_with("torch "); }
  std::string mode_text() const { return ran_as.empty() ? mode : mode + (peer() ? " (" : " (ran as ") + ran_as + ")"; }
};

}  // namespace hyperion::bench
