// What each block of a run's model reaches of what the machine could do.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "hyperion/analysis/roofline.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/words.h"
#include "hyperion/bench/cpu_peak.h"
#include "hyperion/cli/commands.h"
#include "hyperion/command/open_trace.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/resolve.h"
#include "hyperion/command/trace_output.h"
#include "hyperion/command/usage.h"
#include "hyperion/host/peaks.h"
#include "hyperion/interop/find_run.h"
#include "hyperion/models/planned_model.h"
#include "hyperion/parallel/config.h"
#include "hyperion/report/run_record.h"
#include "hyperion/train/config.h"

namespace hyperion::cli {
namespace {

using analysis::Phase;
using base::format;

struct TraceRooflineOptions {
  std::string run;
  double peak_tflops = 0, bandwidth = 0;
  int64_t top = 20, threads = 0;
  bool json = false;
};

// What one rank of a run computes and moves in a step, by blocks: counted from the model's shapes.
class CountedWork {
 public:
  CountedWork(const train::RunConfig& config, int64_t ranks) {
    const auto model = outline_of(config);
    shape_ = model->shape(config.train.length);
    model_ = models::planned_model(*model, config.train.length);
    if (model_.costs.blocks.empty())
      throw base::ConfigError("the operations of this model are not counted by blocks",
                              "hyperion trace analyze tells where its time went");
    layout_ = parallel::layout_of(config.parallel, ranks);
    micro_batches_ = static_cast<double>(std::max<int64_t>(config.train.accumulate, 1));
    element_ = train::compute_type(config.train.precision) == at::kFloat ? 4 : 2;
    frozen_element_ = config.model.quantize == models::Quantize::nf4 ? 0.5 : element_;
    samples_ = static_cast<double>(config.train.batch) / static_cast<double>(layout_.dp());
    length_ = static_cast<double>(shape_.context > 0 ? config.train.length : std::max<int64_t>(model_.image_tokens, 1));
    parameters_.resize(static_cast<size_t>(model_.blocks) + 2);
    trained_ = parameters_;
    for (const auto& tensor : model_.tensors) {
      double count = 1;
      for (const auto size : tensor.shape) count *= static_cast<double>(size);
      parameters_[static_cast<size_t>(tensor.block + 1)] += count;
      if (tensor.trained) trained_[static_cast<size_t>(tensor.block + 1)] += count;
    }
  }

  analysis::PhaseWork of(const std::string& name) const {
    if (name == analysis::kOutsideBlocks) return outside();
    const auto block = models::block_of(name);
    if (!block || *block >= model_.blocks) return {};
    const auto place = static_cast<size_t>(*block);
    const double all = parameters_[place + 1], trained = trained_[place + 1];
    return work(model_.costs.blocks[place], (all - trained) * frozen_element_ + trained * element_, trained);
  }

 private:
  // The head: one rank of a pipeline has it, and times are means of all.
  analysis::PhaseWork outside() const {
    if (model_.costs.last <= 0) return {};
    const double head = static_cast<double>(shape_.width) * static_cast<double>(shape_.vocabulary);
    auto found = work(model_.costs.last, head * element_, shape_.trained == shape_.parameters ? head : 0);
    for (auto& each : found)
      each.flops /= static_cast<double>(layout_.pp), each.bytes /= static_cast<double>(layout_.pp);
    return found;
  }

  // `read`: bytes of the weights.
  analysis::PhaseWork work(double flops, double read, double trained) const {
    const double tp = static_cast<double>(layout_.tp), tokens = samples_ * length_ / static_cast<double>(layout_.cp);
    const double forward = flops * (shape_.context > 0 ? tokens : samples_) / tp;
    const double weights = read / tp * micro_batches_;
    const double hidden = tokens * static_cast<double>(shape_.width) * element_;
    analysis::PhaseWork found{};
    auto& there = found[static_cast<size_t>(Phase::forward)];
    there = {forward, weights + 2 * hidden};
    found[static_cast<size_t>(Phase::recompute)] = there;
    found[static_cast<size_t>(Phase::backward)] = {forward * shape_.backward_flops_token / shape_.forward_flops_token,
                                                   weights + trained / tp * element_ * micro_batches_ + 4 * hidden};
    return found;
  }

  strategy::ModelShape shape_;
  strategy::PlannedModel model_;
  strategy::Layout layout_;
  double micro_batches_ = 1, element_ = 4, frozen_element_ = 4, samples_ = 1, length_ = 1;
  std::vector<double> parameters_, trained_;  // by block, of the first part at 0
};

std::string fact_of(const report::RunRecord& record, const std::string& name) {
  for (const auto& [key, value] : record.environment)
    if (key == name) return value;
  return {};
}

// Of the machine that the run was on; a CPU's is measured here and now.
analysis::Ceiling ceiling_of(const TraceRooflineOptions& options, const report::RunRecord& record,
                             const train::RunConfig& config, std::string& machine) {
  const auto device = fact_of(record, "device");
  const std::string precision = base::word_of(config.train.precision);
  analysis::Ceiling ceiling{options.peak_tflops, options.bandwidth};
  machine = format("{}, {}", device.empty() ? "an unknown device" : device, precision);
  if (const auto* peaks = host::find_peaks(device)) {
    if (ceiling.tflops <= 0) ceiling.tflops = peaks->of(precision);
    if (ceiling.bandwidth <= 0) ceiling.bandwidth = peaks->bandwidth;
  } else if (device == "CPU" && ceiling.tflops <= 0) {
    const auto threads = std::strtoll(fact_of(record, "threads").c_str(), nullptr, 10);
    const auto peak = bench::measure_cpu_peak(static_cast<int>(std::clamp<int64_t>(threads, 1, 1024)), 0.5);
    ceiling.tflops = peak.tflops;
    machine =
        format("CPU, {} thread{}, {}, fp32, measured now", peak.threads, peak.threads == 1 ? "" : "s", peak.vectors);
  }
  return ceiling;
}

int trace_roofline_command(const TraceRooflineOptions& options) {
  auto& files = base::real_files();
  const auto run = interop::find_run(files, options.run);
  train::RunConfig config;
  read_run_config(config, run, {});
  const auto record = report::read_run_record(files, run);
  std::vector<analysis::LayerTimes> ranks;
  int64_t world = 1;
  for (const auto& file : trace_files_of(run.string())) {
    auto trace = read_shown(file, options.threads);
    world = std::max(world, trace.facts.world_size.value_or(1));
    ranks.push_back(analysis::layer_times(analysis::timeline_of(std::move(trace))));
  }
  if (std::all_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank.rows.empty(); }))
    throw base::ConfigError("these traces tell of no block of the model",
                            "of recorded stages of pipelines none is known: --optimize fused --profile 1+3");
  const CountedWork work(config, world);
  std::string machine;
  const auto ceiling = ceiling_of(options, record, config, machine);
  const auto found = analysis::roofline(
      ranks, [&](const std::string& name) { return work.of(name); }, ceiling, machine);
  if (options.json) {
    print_trace_json(analysis::roofline_json(found));
    return 0;
  }
  print_tables(analysis::roofline_tables(found, static_cast<size_t>(options.top)));
  const auto advice = analysis::roofline_advice(found);
  if (!advice.empty()) std::printf("\n");
  for (const auto& text : advice) std::printf("%s\n", text.c_str());
  return 0;
}

}  // namespace

void add_trace_roofline(Commands& trace) {
  trace.add<TraceRooflineOptions>(
      "roofline", "what each block of a run's model computes, and how near to the machine's ceiling",
      [](CLI::App* command, TraceRooflineOptions& options) {
        command->add_option("RUN", options.run, "a run that was traced: train --profile, hyperion profile RUN")
            ->required();
        command
            ->add_option("--peak-tflops", options.peak_tflops,
                         "of the machine (default: the datasheet's of a GPU that is known; measured, of a CPU)")
            ->check(number(0, 1e9));
        command->add_option("--bandwidth", options.bandwidth, "of its memory, GB/s (default: the datasheet's)")
            ->check(number(0, 1e9));
        command->add_option("--top", options.top, "up to so many rows block by block, beyond that sums (default 20)")
            ->check(whole_number(0, 1 << 30));
        command->add_option("--threads", options.threads, "that read (default: one for each core, at most 8)")
            ->check(whole_number(1, 64));
        command->add_flag("--json", options.json, "as JSON, times in microseconds");
        command->footer(
            "\nOperations and bytes are counted from the model's shapes, a step of one rank: multiply and add are two, "
            "causal attention\ncounts by half, bytes are the least that must move. Times are those of `trace analyze`."
            "\n\nExample:\n  hyperion train "
            "recipe.toml --profile 1+3@10 --run first && hyperion trace roofline first");
      },
      trace_roofline_command);
}

}  // namespace hyperion::cli
