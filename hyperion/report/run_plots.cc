#include "hyperion/report/run_plots.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace hyperion::report {
namespace {

constexpr double kOutlier = 12;  // times the median

template <class Value>
Series series_of(const std::vector<StepRecord>& steps, std::string name, Value value) {
  Series series{std::move(name), {}, {}};
  for (const StepRecord& record : steps) {
    series.x.push_back(static_cast<double>(record.step));
    series.y.push_back(value(record));
  }
  return series;
}

bool has_outliers(const Series& series) {
  std::vector<double> values;
  for (double y : series.y) {
    if (std::isfinite(y) && y > 0) values.push_back(y);
  }
  if (values.size() < 3) return false;
  std::sort(values.begin(), values.end());
  return values.back() > kOutlier * values[values.size() / 2];
}

bool all_zero(const Series& series) {
  return std::all_of(series.y.begin(), series.y.end(), [](double y) { return y == 0 || std::isnan(y); });
}

Plot over_steps(const char* title, const std::string& y_label, std::vector<Series> series) {
  Plot plot;
  plot.title = title;
  plot.x_label = "step";
  plot.width = 520;
  plot.height = 290;
  plot.log_y = std::any_of(series.begin(), series.end(), has_outliers);
  plot.y_label = plot.log_y ? y_label + " (log scale)" : y_label;
  plot.series = std::move(series);
  return plot;
}

std::string nats_of(const std::string& unit) { return (unit == "image" ? "nats an " : "nats a ") + unit; }

// What validations and whole epochs have found, a line each.
template <class Value>
void add_evaluations(std::vector<Series>& series, const Metrics& metrics, Value value) {
  std::map<std::string, size_t> place;  // of a split in `series`
  for (const EvalRecord& record : metrics.evaluations) {
    const std::string name = record.split == "training" ? "mean of an epoch" : record.split;
    const auto [at, is_new] = place.emplace(name, series.size());
    if (is_new) series.push_back({name, {}, {}});
    series[at->second].x.push_back(static_cast<double>(record.step));
    series[at->second].y.push_back(value(record));
  }
}

Plot loss_plot(const Metrics& metrics, const std::string& unit) {
  std::vector<Series> series{series_of(metrics.steps, "training", [](const StepRecord& r) { return r.loss; })};
  add_evaluations(series, metrics, [](const EvalRecord& r) { return r.loss; });
  Plot plot = over_steps("Loss", nats_of(unit), std::move(series));
  plot.height = 330;
  return plot;
}

Plot accuracy_plot(const Metrics& metrics) {
  const auto percent = [](const std::optional<double>& part) { return part ? 100 * *part : std::nan(""); };
  std::vector<Series> series{
      series_of(metrics.steps, "training", [&](const StepRecord& r) { return percent(r.accuracy); })};
  add_evaluations(series, metrics,
                  [&](const EvalRecord& r) { return percent(r.token_accuracy ? r.token_accuracy : r.top_1); });
  Plot plot = over_steps("Accuracy", "percent", std::move(series));
  plot.log_y = false, plot.y_label = "percent";
  return plot;
}

Plot phases_plot(const std::vector<StepRecord>& steps) {
  std::vector<Series> series{
      series_of(steps, "whole step", [](const StepRecord& r) { return r.step_ms; }),
      series_of(steps, "forward", [](const StepRecord& r) { return r.forward_ms; }),
      series_of(steps, "backward", [](const StepRecord& r) { return r.backward_ms; }),
      series_of(steps, "optimizer", [](const StepRecord& r) { return r.optimizer_ms; }),
      series_of(steps, "data wait", [](const StepRecord& r) { return r.data_wait_ms; }),
      series_of(steps, "communication", [](const StepRecord& r) { return r.comm_ms.value_or(std::nan("")); }),
  };
  std::erase_if(series, all_zero);
  return over_steps("Step time", "milliseconds", std::move(series));
}

Plot experts_plot(const std::vector<StepRecord>& steps) {
  const auto part = [](const std::optional<double>& value) { return value ? 100 * *value : std::nan(""); };
  std::vector<Series> series{
      series_of(steps, "busiest expert, of an even share", [&](const StepRecord& r) { return part(r.expert_busiest); }),
      series_of(steps, "experts without a token", [&](const StepRecord& r) { return part(r.expert_idle); }),
      series_of(steps, "choices without room", [&](const StepRecord& r) { return part(r.expert_dropped); })};
  std::erase_if(series, all_zero);
  return over_steps("Experts", "percent", std::move(series));
}

// A clock that sinks explains steps that take longer.
Plot gpu_plot(const std::vector<StepRecord>& steps) {
  const auto known = [](const std::optional<double>& value) { return value.value_or(std::nan("")); };
  std::vector<Series> series{
      series_of(steps, "clock, MHz", [&](const StepRecord& r) { return known(r.gpu_clock); }),
      series_of(steps, "power, watts", [&](const StepRecord& r) { return known(r.gpu_power); }),
      series_of(steps, "temperature, degrees", [&](const StepRecord& r) { return known(r.gpu_temperature); })};
  std::erase_if(series, all_zero);
  return over_steps("GPU of the first process", "", std::move(series));
}

}  // namespace

std::vector<Plot> run_plots(const Metrics& metrics, const std::string& unit) {
  const auto& steps = metrics.steps;
  std::vector<Plot> plots{
      loss_plot(metrics, unit),
      over_steps("Learning rate", "", {series_of(steps, "learning rate", [](const StepRecord& r) { return r.lr; })}),
      over_steps("Gradient norm", "before clipping",
                 {series_of(steps, "norm", [](const StepRecord& r) { return r.grad_norm; })}),
      over_steps("Speed", unit + "s a second",
                 {series_of(steps, unit + "s a second", [](const StepRecord& r) { return r.tokens_per_s; })}),
      phases_plot(steps),
  };
  const bool judged =
      std::any_of(steps.begin(), steps.end(), [](const StepRecord& r) { return r.accuracy.has_value(); });
  if (judged) plots.insert(plots.begin() + 1, accuracy_plot(metrics));
  const bool routed =
      std::any_of(steps.begin(), steps.end(), [](const StepRecord& r) { return r.expert_busiest.has_value(); });
  if (routed) plots.push_back(experts_plot(steps));
  const bool told =
      std::any_of(steps.begin(), steps.end(), [](const StepRecord& r) { return r.gpu_clock.has_value(); });
  if (told) plots.push_back(gpu_plot(steps));
  return plots;
}

namespace {

Series validation_series(const NamedMetrics& run) {
  Series series{run.name, {}, {}};
  for (const EvalRecord& record : run.metrics->evaluations) {
    if (record.split == "training") continue;  // the mean of an epoch
    series.x.push_back(static_cast<double>(record.step));
    series.y.push_back(record.loss);
  }
  return series;
}

// The same points, each where the steps up to it had taken so long.
Series over_seconds(Series series, const std::vector<StepRecord>& steps) {
  double seconds = 0;
  for (size_t i = 0; i < steps.size(); ++i) series.x[i] = seconds += steps[i].step_ms / 1000;
  return series;
}

}  // namespace

std::vector<Plot> compared_plots(const std::vector<NamedMetrics>& runs, const std::string& unit) {
  const auto each = [&](auto value) {
    std::vector<Series> all;
    for (const auto& run : runs) all.push_back(series_of(run.metrics->steps, run.name, value));
    return all;
  };
  const std::string nats = nats_of(unit);
  const auto losses = each([](const StepRecord& r) { return r.loss; });
  std::vector<Series> validations, timed;
  for (size_t i = 0; i < runs.size(); ++i) {
    validations.push_back(validation_series(runs[i]));
    timed.push_back(over_seconds(losses[i], runs[i].metrics->steps));
  }
  std::erase_if(validations, [](const Series& series) { return series.x.empty(); });
  std::vector<Plot> plots = {over_steps("Training loss", nats, losses)};
  plots[0].height = 330;
  if (!validations.empty()) plots.push_back(over_steps("Validation loss", nats, std::move(validations)));
  plots.push_back(over_steps("Training loss over time", nats, std::move(timed)));
  plots.back().x_label = "seconds of training";
  plots.push_back(over_steps("Learning rate", "", each([](const StepRecord& r) { return r.lr; })));
  plots.push_back(
      over_steps("Gradient norm", "before clipping", each([](const StepRecord& r) { return r.grad_norm; })));
  plots.push_back(over_steps("Speed", unit + "s a second", each([](const StepRecord& r) { return r.tokens_per_s; })));
  return plots;
}

}  // namespace hyperion::report
