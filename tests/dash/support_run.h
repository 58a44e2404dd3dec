// A run's folder as training writes it.
#pragma once
#include <fstream>
#include <string>

#include "hyperion/report/metrics.h"
#include "hyperion/report/run_record.h"
#include "tests/base/support_child.h"

namespace hyperion::testing {

inline report::StepRecord step_of(int64_t step) {
  report::StepRecord record;
  record.step = step;
  record.loss = 10.0 / static_cast<double>(step);
  record.grad_norm = 1, record.lr = 0.1, record.step_ms = 500, record.tokens = 64;
  return record;
}

inline void append(const base::Path& path, const std::string& text) {
  std::ofstream(path, std::ios::app | std::ios::binary) << text;
}

inline void begin_run(const base::Path& folder, const std::string& created = "2026-11-19T12:00:00Z") {
  base::real_files().create_folders(folder);
  report::RunRecord record;
  record.name = folder.filename(), record.created = created, record.steps = 100;
  report::write_run_record(base::real_files(), folder, record);
}

// Steps first..last, each rank's file too.
inline void write_steps(const base::Path& folder, int64_t first, int64_t last, int ranks = 1) {
  for (int rank = 0; rank < ranks; ++rank) {
    report::MetricsWriter writer(base::real_files(), folder, rank, first - 1);
    for (int64_t step = first; step <= last; ++step) writer.write(step_of(step));
  }
}

}  // namespace hyperion::testing
