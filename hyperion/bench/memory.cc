#include "hyperion/bench/memory.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/signals.h"
#include "hyperion/base/words.h"
#include "hyperion/bench/figures.h"
#include "hyperion/bench/random_training.h"
#include "hyperion/device/device.h"
#include "hyperion/profile/memory.h"
#include "hyperion/train/stepper.h"

namespace hyperion::bench {
namespace {

using base::format;
using train::MemoryConfig;
using train::RunConfig;

constexpr int64_t kMemoryWarmUp = 3;

struct Variant {
  train::Precision precision;
  nn::Recompute recompute = nn::Recompute::none;
  int64_t every = 1;
  bool activations = false, optimizer = false;
};

std::vector<Variant> variants(bool adapted, bool gpu) {
  using nn::Recompute;
  using enum train::Precision;
  if (adapted) return {{bf16}, {bf16, Recompute::selective}, {bf16, Recompute::blocks}};
  std::vector<Variant> list = {{fp32},
                               {fp32, Recompute::blocks},
                               {bf16},
                               {bf16, Recompute::selective},
                               {bf16, Recompute::blocks, 2},
                               {bf16, Recompute::blocks}};
  if (!gpu) return list;
  list.push_back({bf16, Recompute::none, 1, true, false});
  list.push_back({bf16, Recompute::none, 1, false, true});
  list.push_back({bf16, Recompute::blocks, 1, true, true});
  return list;
}

void measure(MemoryRow& row, const RunConfig& config, at::Device device, int64_t steps) {
  const bool gpu = device.is_cuda();
  profile::release_cached_memory(gpu);
  const auto model = random_model(config, device);
  train::Stepper stepper(*model, config, device);
  const auto batch = random_batch(config, model->shape(config.train.length));
  row.report = stepper.measure(batch, config.memory);
  profile::reset_peak(gpu);
  std::vector<double> seconds;
  for (int64_t step = 1; step <= kMemoryWarmUp + steps; ++step) {
    base::throw_if_stopped("measuring memory");
    device::synchronize(device);
    const double begun = base::real_clock().seconds();
    const auto timer = profile::make_step_timer(false);
    stepper.run(batch, step, 1e-4, *timer);
    device::synchronize(device);
    if (step > kMemoryWarmUp) seconds.push_back(base::real_clock().seconds() - begun);
  }
  row.step_seconds = profile::spread_of(seconds);
  if (gpu) row.step_peak = profile::memory_use(true).peak.value_or(0);
}

std::string memory_text(int64_t bytes) { return base::bytes_text(static_cast<uint64_t>(std::max<int64_t>(bytes, 0))); }

}  // namespace

MemoryResult run_memory_bench(const RunConfig& config, const std::string& workload, int64_t steps) {
  const auto device = device::open_device(config.train.device);
  MemoryResult result{workload, device::device_text(device), {}};
  base::ProgressLine progress;
  for (const auto& variant : variants(config.lora.rank > 0, device.is_cuda())) {
    RunConfig changed = config;
    changed.train.precision = variant.precision;
    changed.memory.recompute = variant.recompute, changed.memory.recompute_every = variant.every;
    changed.memory.offload_activations = variant.activations, changed.memory.offload_optimizer = variant.optimizer;
    MemoryRow row;
    row.precision = base::word_of(variant.precision);
    row.memory = changed.memory;
    progress.show(format("{}: {}, saving {}", workload, row.precision, train::technique_text(row.memory)));
    device::allow_tf32(false);
    try {
      measure(row, changed, device, steps);
    } catch (const std::exception& error) {
      if (!train::is_out_of_memory(error)) throw;
      row.failed = "out of memory";
    }
    result.rows.push_back(std::move(row));
  }
  progress.clear();
  return result;
}

std::string memory_bench_table(const MemoryResult& result) {
  std::string out = format("{} on {}; milliseconds a step, and memory\n\n", result.workload, result.device_name);
  out +=
      "| precision | saving | ms | peak | weights | gradients | optimizer | on the host | activations | temporary |\n";
  out += "|---|---|---|---|---|---|---|---|---|---|\n";
  for (const auto& row : result.rows) {
    const auto& report = row.report;
    if (!row.failed.empty()) {
      out += format("| {} | {} | {} | | | | | | | |\n", row.precision, train::technique_text(row.memory), row.failed);
      continue;
    }
    out += format("| {} | {} | {:.1f} | {} | {} | {} | {} | {} | {} | {} |\n", row.precision,
                  train::technique_text(row.memory), 1e3 * row.step_seconds.median,
                  memory_text(std::max(row.step_peak, report.peak())), memory_text(report.weights),
                  memory_text(report.gradients), memory_text(report.optimizer), memory_text(report.optimizer_on_host),
                  memory_text(report.activations), memory_text(report.temporary));
  }
  return out;
}

std::string memory_bench_json(const MemoryResult& result) {
  Figures figures{"memory", result.device_name, {}};
  base::Json rows = base::Json::array();
  for (const auto& row : result.rows) {
    const auto name = format("{} {}, saving {}", result.workload, row.precision, train::technique_text(row.memory));
    figures.list.push_back(row.failed.empty() ? time_figure(name + ": step", "ms", row.step_seconds, 1e3)
                                              : single_figure(name + ": step", "ms", {}, true));
    if (row.step_peak > 0)
      figures.list.push_back(single_figure(name + ": peak", "MiB", static_cast<double>(row.step_peak) / 0x1p20, true));
    rows.push_back({{"precision", row.precision},
                    {"saving", train::technique_text(row.memory)},
                    {"failed", row.failed},
                    {"step_ms", 1e3 * row.step_seconds.median},
                    {"step_peak", row.step_peak},
                    {"memory", base::Json::parse(to_json(row.report))}});
  }
  auto json = result_json(figures);
  json.update({{"workload", result.workload}, {"device", result.device_name}, {"rows", rows}});
  return json.dump(2) + "\n";
}

}  // namespace hyperion::bench
