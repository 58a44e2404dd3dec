// `hyperion tune`: measures ahead what `train.optimize = "max"` would the first time it meets a shape, and shows what
// was gained (device/tuning_cache.h keeps it).
#pragma once
#include <string>
#include <vector>

#include "hyperion/train/config.h"

namespace hyperion::bench {

struct TuneRow {
  std::string gpu, library, what, way;
  double microseconds = 0, usual = 0;
  bool measured = false;  // by this run; else it was known
};

struct TuneResult {
  std::string name, device_name, file;
  std::vector<TuneRow> rows;  // the largest gain first
};

// Some steps on random weights and samples, in max. Throws PreflightError where there is no GPU to choose for.
TuneResult tune(const std::string& name, train::RunConfig config);
TuneResult kept_rows();  // all that the file holds

std::string tune_table(const TuneResult& result);
std::string tune_json(const TuneResult& result);

}  // namespace hyperion::bench
