// What other tools read of a run: files of TensorBoard, Weights & Biases, MLflow and Prometheus.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "hyperion/base/words.h"
#include "hyperion/report/metric_sink.h"
#include "hyperion/report/metrics.h"

namespace hyperion::report {

enum class MetricTool { tensorboard, wandb, mlflow, prometheus };
constexpr auto words_of(MetricTool) { return std::array{"tensorboard", "wandb", "mlflow", "prometheus"}; }

// Of a setting's words: all different, or "none" alone. Throws ConfigError that names the setting.
std::vector<MetricTool> metric_tools(const std::vector<std::string>& words, const std::string& setting);

// Begins the files in `folder`, in place of those of the same run that are there.
//   tensorboard  events.out.tfevents.* in it
//   wandb        offline-run-*/run-*.wandb in it
//   mlflow       it is a file store; may hold other runs
//   prometheus   <run>.prom in it, replaced every five seconds at most
std::unique_ptr<MetricSink> open_sink(MetricTool tool, base::FileSystem& files, const base::Path& folder,
                                      const SinkRun& run);

// How a user looks at what was written there.
std::string how_to_open(MetricTool tool, const base::Path& folder);

// All of a run that is there already.
void replay(MetricSink& sink, const Metrics& metrics, double begun);

// All that a run in training writes for other tools. What cannot be written, on a full disk say, is told once, and that
// tool gets no more: the training goes on.
class MetricSinks {
 public:
  // In the run's folder: tb/, wandb/, mlruns/, and <run>.prom. Begins with what the run measured before.
  void open(MetricTool tool, base::FileSystem& files, const base::Path& folder, const SinkRun& run,
            const Metrics& before);
  void write(const StepRecord& record);
  void write(const EvalRecord& record);
  void end(const std::string& status);

 private:
  struct Open {
    MetricTool tool;
    std::unique_ptr<MetricSink> sink;
  };
  template <class Do>
  void each(Do&& what);
  std::vector<Open> open_;
};

}  // namespace hyperion::report
