// The flags of `hyperion eval`.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace hyperion::cli {

struct EvalOptions {
  std::vector<std::string> models, adapters;  // adapters: FOLDER or NAME=FOLDER, of the first model
  std::string device = "auto", quantize;      // quantize: none or nf4; empty: as it was trained
  std::string set, precision;                 // set empty: the run's own validation data
  int64_t length = 0, batches = 0;            // 0: as the models say
  bool json = false;
};

}  // namespace hyperion::cli
