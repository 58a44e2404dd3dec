#include "hyperion/bench/startup.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include <nlohmann/json.hpp>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/words.h"
#include "hyperion/bench/child.h"
#include "hyperion/bench/figures.h"
#include "hyperion/bench/random_training.h"
#include "hyperion/device/device.h"
#include "hyperion/host/programs.h"

namespace hyperion::bench {
namespace {

using base::format;

constexpr std::pair<double Startup::*, const char*> kStages[] = {
    {&Startup::load, "load"}, {&Startup::device, "device"}, {&Startup::model, "model"}, {&Startup::step, "first step"}};

train::RunConfig config_of(const StartupOptions& options) {
  Changes changes = options.changes;
  changes.emplace_back("train.device", options.device);
  if (!options.mode.empty()) changes.emplace_back("train.optimize", options.mode);
  const auto found = find_workloads(options.workload);
  if (found.size() != 1) throw base::ConfigError("a start is of one workload", "name one");
  return config_of(*found[0], changes);
}

template <class Get>
profile::Spread spread(const StartupResult& result, Get get) {
  std::vector<double> values;
  for (const auto& run : result.runs) values.push_back(get(run));
  return profile::spread_of(values);
}

}  // namespace

Startup first_step(const StartupOptions& options, double begun) {
  Startup startup;
  double last = begun;
  const auto lap = [&] {
    const double now = base::real_clock().unix_seconds(), seconds = now - last;
    last = now;
    return seconds;
  };
  startup.load = lap();
  const auto config = config_of(options);
  const auto device = device::open_device(config.train.device);
  device::allow_tf32(config.train.precision == train::Precision::tf32);
  at::ones({1}, at::TensorOptions().device(device));
  device::synchronize(device);
  startup.device = lap();
  RandomTraining training(config, device, find_workloads(options.workload)[0]->drawn);
  device::synchronize(device);
  startup.model = lap();
  training.step();
  const double loss = training.loss();
  startup.step = lap();
  if (!(loss == loss)) throw base::Error("the first loss is not a number");
  return startup;
}

std::string startup_line(const Startup& startup) {
  return base::Json{
      {"load", startup.load}, {"device", startup.device}, {"model", startup.model}, {"step", startup.step}}
      .dump();
}

StartupResult run_startup_bench(const StartupOptions& options, const std::vector<std::string>& arguments) {
  const auto config = config_of(options);  // what is wrong is said here, not by a child
  StartupResult result{options.workload,
                       base::word_of(config.train.optimize),
                       base::word_of(config.train.precision),
                       "",
                       {},
                       settings_of(options.changes)};
  base::ProgressLine progress;
  for (int64_t repeat = 0; repeat <= options.repeats; ++repeat) {
    progress.show(format("start {} of {}", repeat, options.repeats));
    Startup startup;
    std::vector<std::string> words = {host::own_program()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    words.insert(words.end(), {"--begun", format("{:.6f}", base::real_clock().unix_seconds())});
    const int code = run_child(words, [&](std::string_view line) {
      const auto json = base::parse_json(line, "the started process");
      startup = {json.at("load"), json.at("device"), json.at("model"), json.at("step")};
    });
    if (code != 0 || startup.step == 0)
      throw base::Error(format("the started process failed with exit code {}", code), "what it said stands above");
    if (repeat > 0) result.runs.push_back(startup);  // the first start brings the files into the page cache
  }
  result.device_name = device::device_text(device::open_device(config.train.device));
  progress.clear();
  return result;
}

Outcome startup_outcome(const StartupResult& result) {
  std::vector<std::vector<std::string>> rows = {{"stage", "seconds", "low", "high"}};
  Figures figures{"startup", result.device_name, {}, result.settings};
  const auto add = [&](const std::string& name, const profile::Spread& seconds) {
    rows.push_back(
        {name, format("{:.3f}", seconds.median), format("{:.3f}", seconds.low), format("{:.3f}", seconds.high)});
    figures.list.push_back(
        time_figure(case_name(result.workload, result.mode, result.precision) + " " + name, "s", seconds, 1));
  };
  for (const auto& [member, name] : kStages)
    add(name, spread(result, [member = member](const Startup& run) { return run.*member; }));
  add("exec to end of first step", spread(result, [](const Startup& run) { return run.total(); }));
  auto json = result_json(figures);
  json["workload"] = result.workload, json["mode"] = result.mode, json["starts"] = result.runs.size();
  const auto heading =
      format("{} in {} on {}; medians of {} starts, files cached; random weights drawn on the device\n\n",
             result.workload, result.mode, result.device_name, result.runs.size());
  return {"startup", heading + aligned(rows), json.dump(2) + "\n", csv_text(rows), {}};
}

}  // namespace hyperion::bench
