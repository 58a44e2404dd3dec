// One tool's files of a run, which take the same records as metrics.jsonl, while they come or afterwards.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/report/metric_records.h"

namespace hyperion::report {

// Of the run, what a tool keeps beside its numbers.
struct SinkRun {
  std::string name;
  double begun = 0;                                           // seconds since 1970
  std::vector<std::pair<std::string, std::string>> settings;  // "train.batch", as TOML writes it
};
// The same for the same run, of so many hexadecimal digits (at most 32): what is exported again is the same run there.
std::string run_digest(const SinkRun& run, size_t digits);

class MetricSink {
 public:
  virtual ~MetricSink() = default;
  virtual void write(const StepRecord& record, double unix_seconds) = 0;
  virtual void write(const EvalRecord& record, double unix_seconds) = 0;
  virtual void end(const std::string& status, double unix_seconds) = 0;  // as run.json has it
};

// Each begins its files in `folder`, in place of those of the same run that are there.
std::unique_ptr<MetricSink> open_tensorboard(base::FileSystem& files, const base::Path& folder, const SinkRun& run);
std::unique_ptr<MetricSink> open_wandb(base::FileSystem& files, const base::Path& folder, const SinkRun& run);
std::unique_ptr<MetricSink> open_mlflow(base::FileSystem& files, const base::Path& folder, const SinkRun& run);
std::unique_ptr<MetricSink> open_prometheus(base::FileSystem& files, const base::Path& folder, const SinkRun& run);

}  // namespace hyperion::report
