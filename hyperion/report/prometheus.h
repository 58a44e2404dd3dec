// The newest of a run in Prometheus' text format: names with base units, rising numbers as counters.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "hyperion/report/metric_records.h"

namespace hyperion::report {

struct NewestMetrics {
  std::string run, status = "running";
  std::optional<StepRecord> step;
  std::map<std::string, EvalRecord> evaluations;  // by split
  int64_t tokens = 0;                             // of all steps
  double joules = 0;

  void add(const StepRecord& record);
  void add(const EvalRecord& record) { evaluations[record.split] = record; }
};

std::string prometheus_text(const NewestMetrics& newest);

}  // namespace hyperion::report
