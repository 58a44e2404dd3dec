// `hyperion eval MODEL... --set SET`: models side by side on one prepared set.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace hyperion::cli {

// The flags of `hyperion eval`.
struct EvalOptions {
  std::vector<std::string> models, adapters;  // adapters: FOLDER or NAME=FOLDER, of the first model
  std::string device = "auto", quantize;      // quantize: none or nf4; empty: as it was trained
  std::string set, precision;                 // set empty: the run's own validation data
  int64_t length = 0, batches = 0;            // 0: as the models say
  bool json = false;
};

constexpr int64_t kMeasuredLength = 1024;  // tokens at a time, of models that read as many

// Throws Error, as `generate` does for such scores, where the loss of `which` model is not finite.
void expect_finite_loss(const std::string& which, double loss);

int measure_command(const EvalOptions& options);

}  // namespace hyperion::cli
