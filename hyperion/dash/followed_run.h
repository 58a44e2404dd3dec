// A run's metrics, read as they are written and kept in bounded memory.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "hyperion/dash/curves.h"
#include "hyperion/dash/growing_file.h"
#include "hyperion/report/metric_records.h"
#include "hyperion/report/prometheus.h"

namespace hyperion::dash {

class FollowedRun {
 public:
  explicit FollowedRun(const base::Path& folder) : file_(folder / "metrics.jsonl") {}

  // Reads on, some 5 ms of work at most. Whether there was something new, and whether more waits.
  struct Progress {
    bool changed = false, more = false;
  };
  Progress read_on();

  const Curves& curves() const { return curves_; }
  struct Evaluation {
    int64_t step = 0;
    double seconds = 0;
    std::vector<report::NamedValue> values;
  };
  const std::deque<Evaluation>& evaluations() const { return evaluations_; }
  int64_t evaluations_seen() const { return evaluations_seen_; }
  // The newest with texts of prompts; at most so many.
  static constexpr size_t kKeptAnswers = 20;
  const std::deque<report::EvalRecord>& answers() const { return answers_; }
  const report::NewestMetrics& newest() const { return newest_; }
  std::optional<int64_t> first_nonfinite() const { return first_nonfinite_; }  // step without a loss or gradient norm
  int64_t damaged() const { return damaged_; }                                 // lines that are no records
  double part_read() const;

 private:
  void take_line(std::string_view line);
  void take(const report::StepRecord& record);
  void take(report::EvalRecord record);
  void forget();

  GrowingFile file_;
  Curves curves_;
  std::deque<Evaluation> evaluations_;
  int64_t evaluations_seen_ = 0, damaged_ = 0;
  std::deque<report::EvalRecord> answers_;
  report::NewestMetrics newest_;
  std::optional<int64_t> first_nonfinite_;
  double seconds_ = 0;
};

}  // namespace hyperion::dash
