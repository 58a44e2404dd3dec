#include "hyperion/report/metric_sinks.h"

#include <algorithm>
#include <exception>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/report/metric_values.h"

namespace hyperion::report {

std::vector<MetricTool> metric_tools(const std::vector<std::string>& words, const std::string& setting) {
  std::vector<MetricTool> tools;
  for (const auto& word : words) {
    if (word == "none" && words.size() == 1) return {};
    const auto tool = base::from_word<MetricTool>(word);
    if (!tool)
      throw base::ConfigError(base::format("{} names \"{}\"", setting, word),
                              "it takes tensorboard, wandb, mlflow and prometheus, or none alone");
    if (std::find(tools.begin(), tools.end(), *tool) != tools.end())
      throw base::ConfigError(base::format("{} names {} twice", setting, word), "leave one out");
    tools.push_back(*tool);
  }
  return tools;
}

std::unique_ptr<MetricSink> open_sink(MetricTool tool, base::FileSystem& files, const base::Path& folder,
                                      const SinkRun& run) {
  switch (tool) {
    case MetricTool::tensorboard:
      return open_tensorboard(files, folder, run);
    case MetricTool::wandb:
      return open_wandb(files, folder, run);
    case MetricTool::mlflow:
      return open_mlflow(files, folder, run);
    case MetricTool::prometheus:
      return open_prometheus(files, folder, run);
  }
  return nullptr;
}

void replay(MetricSink& sink, const Metrics& metrics, double begun) {
  const auto ends = step_ends(metrics.steps, begun);
  size_t evaluation = 0;
  double now = begun;
  const auto evaluations_before = [&](int64_t step) {
    for (; evaluation < metrics.evaluations.size() && metrics.evaluations[evaluation].step < step; ++evaluation) {
      const auto& record = metrics.evaluations[evaluation];
      sink.write(record, record.unix_s.value_or(now));
    }
  };
  for (size_t i = 0; i < metrics.steps.size(); ++i) {
    evaluations_before(metrics.steps[i].step);
    sink.write(metrics.steps[i], now = ends[i]);
  }
  evaluations_before(INT64_MAX);
}

std::string how_to_open(MetricTool tool, const base::Path& folder) {
  switch (tool) {
    case MetricTool::tensorboard:
      return base::format("look at them: tensorboard --logdir {}", folder.string());
    case MetricTool::wandb:
      return base::format("send them: wandb sync {}/offline-run-*", folder.string());
    case MetricTool::mlflow:
      return base::format("look at them: mlflow ui --backend-store-uri {}", folder.string());
    case MetricTool::prometheus:
      return base::format("node_exporter reads them: --collector.textfile.directory={}", folder.string());
  }
  return "";
}

void MetricSinks::open(MetricTool tool, base::FileSystem& files, const base::Path& folder, const SinkRun& run,
                       const Metrics& before) {
  const auto place = tool == MetricTool::tensorboard ? folder / "tb"
                     : tool == MetricTool::wandb     ? folder / "wandb"
                     : tool == MetricTool::mlflow    ? folder / "mlruns"
                                                     : folder;
  open_.push_back({tool, nullptr});
  each([&](Open& one) {
    if (&one != &open_.back()) return;
    one.sink = open_sink(tool, files, place, run);
    replay(*one.sink, before, run.begun);
  });
}

template <class Do>
void MetricSinks::each(Do&& what) {
  std::erase_if(open_, [&](Open& one) {
    try {
      what(one);
      return false;
    } catch (const std::exception& error) {
      base::log_warn(base::format("nothing more is written for {}: {}", base::word_of(one.tool), error.what()));
      return true;
    }
  });
}

void MetricSinks::write(const StepRecord& record) {
  const double now = record.unix_s.value_or(base::real_clock().unix_seconds());
  each([&](Open& one) { one.sink->write(record, now); });
}

void MetricSinks::write(const EvalRecord& record) {
  const double now = record.unix_s.value_or(base::real_clock().unix_seconds());
  each([&](Open& one) { one.sink->write(record, now); });
}

void MetricSinks::end(const std::string& status) {
  const double now = base::real_clock().unix_seconds();
  each([&](Open& one) { one.sink->end(status, now); });
}

}  // namespace hyperion::report
