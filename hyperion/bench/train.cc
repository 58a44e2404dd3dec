#include "hyperion/bench/train.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/signals.h"
#include "hyperion/base/words.h"
#include "hyperion/bench/item_progress.h"
#include "hyperion/bench/peers.h"
#include "hyperion/bench/random_training.h"
#include "hyperion/device/device.h"
#include "hyperion/host/gpu.h"
#include "hyperion/host/peaks.h"
#include "hyperion/nn/fp8_linears.h"
#include "hyperion/profile/memory.h"
#include "hyperion/profile/span.h"

namespace hyperion::bench {
namespace {

using base::format;

constexpr int64_t kWarmUp = 5, kBlockSteps = 10;  // steps
constexpr double kRest = 2;                       // seconds

using base::now;

int64_t blocks_of(int64_t steps, int64_t block) {
  return block > 0 ? std::max<int64_t>(1, steps / block) : 1;  // a row that did not run has no blocks
}

// Rates from what the row already knows; the same for ours and the peers'.
void add_rates(TrainRow& row, const train::RunConfig& config, const std::string& device_name) {
  if (!row.failed.empty()) return;
  const auto work = work_of_step(config);
  row.samples_s = static_cast<double>(config.train.batch) / row.step.median;
  row.tokens_s = work.tokens / row.step.median;
  row.tflops = work.flops / row.step.median / 1e12;
  const auto* peaks = host::find_peaks(device_name);
  const double peak = peaks != nullptr ? peaks->of(row.precision) : 0;
  if (peak > 0) row.mfu = row.tflops / peak;
}

// Under load a GPU's clock follows the power it took of late: each row begins from the same rest.
void rest() {
  for (const double until = now() + kRest; now() < until;) {
    base::throw_if_stopped("timing training steps");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

void one_step(RandomTraining& training) {
  base::throw_if_stopped("timing training steps");
  training.step();
}

std::vector<double> timed_blocks(RandomTraining& training, at::Device device, int64_t blocks, int64_t block,
                                 const std::function<void(int64_t)>& told) {
  std::vector<double> seconds;
  for (int64_t i = 0; i < blocks; ++i) {
    if (told) told(i * block);
    const double begun = now();
    for (int64_t step = 0; step < block; ++step) one_step(training);
    device::synchronize(device);
    seconds.push_back((now() - begun) / static_cast<double>(block));
  }
  return seconds;
}

// The clock while steps run, after those that are timed: asking takes longer than a small step. Of one GPU alone: of
// several it is not known here which one this is.
int64_t clock_under_load(RandomTraining& training, at::Device device, double step_seconds) {
  const auto steps = std::max<int64_t>(kBlockSteps, std::llround(0.5 / step_seconds));
  for (int64_t step = 0; step < std::min<int64_t>(steps, 200); ++step) training.step();
  const auto gpus = host::survey_gpus().gpus;
  device::synchronize(device);
  return gpus.size() == 1 ? gpus[0].sm_clock.value_or(0) : 0;
}

void look_at_kernels(TrainRow& row, RandomTraining& training, at::Device device, const base::Path& file) {
  const auto spans = traced_steps(training, device, file);
  row.gaps = profile::gaps_between(spans);
  if (!device.is_cuda()) return;
  row.kinds = profile::kind_times(spans);
  for (double& time : *row.kinds) time /= static_cast<double>(kTracedSteps);
}

// What each kind of layer gains in 8 bits.
std::vector<TrainRow::Fp8Layers> fp8_layers(const nn::Fp8Linears* maps) {
  std::vector<TrainRow::Fp8Layers> list;
  if (maps == nullptr) return list;
  for (const auto& layer : maps->layers()) {
    if (!layer.met) continue;
    std::string name;
    for (const char c : layer.path) {
      if (!std::isdigit(static_cast<unsigned char>(c)))
        name += c;
      else if (name.empty() || name.back() != '*')
        name += '*';
    }
    auto same = std::find_if(list.begin(), list.end(), [&](const auto& other) {
      return other.name == name && other.in == layer.shape.in && other.out == layer.shape.out;
    });
    if (same == list.end())
      same = list.insert(list.end(), {name, 0, layer.shape.rows, layer.shape.in, layer.shape.out, layer.gain.wide,
                                      layer.gain.narrow, layer.gain.rounding, layer.taken});
    ++same->count;
  }
  return list;
}

TrainRow failed_row(const Workload& workload, const std::string& mode, const std::string& precision, std::string why) {
  TrainRow row;
  row.workload = workload.name, row.mode = mode, row.precision = precision, row.failed = std::move(why);
  return row;
}

void note_differences(TrainResult& result, const TrainRow& ours, const TrainRow& peer) {
  if (!ours.failed.empty() || !peer.failed.empty()) return;
  const auto compare = [&](int64_t theirs, int64_t own, const char* what) {
    if (std::abs(static_cast<double>(theirs) / static_cast<double>(std::max<int64_t>(1, own)) - 1) > 0.001)
      result.notes.push_back(format("{}: {} has {} {}, ours {}: not the same model", ours.workload, peer.mode,
                                    base::with_commas(theirs), what, base::with_commas(own)));
  };
  compare(peer.parameters, ours.parameters, "parameters");
  compare(peer.trained, ours.trained, "trained ones");
}

}  // namespace

bool TrainResult::ours_failed() const {
  return std::none_of(rows.begin(), rows.end(), [](const TrainRow& row) { return !row.peer() && row.failed.empty(); });
}

int64_t block_steps(const train::RunConfig& config, int64_t steps) {
  return packs_documents(config) ? random_batches(config) : std::min(kBlockSteps, steps);
}

std::string blocks_text(int64_t steps, int64_t block) {
  const int64_t blocks = blocks_of(steps, block);
  return blocks == 1 ? format("one block of {} step{}", block, block == 1 ? "" : "s")
                     : format("the median of {} blocks of {} steps", blocks, block);
}

std::vector<profile::TracedSpan> traced_steps(RandomTraining& training, c10::Device device, const base::Path& file) {
  base::real_files().create_folders(file.parent_path());
  profile::SpanRecorder steps;
  profile::TraceRecorder recorder(device.is_cuda());
  for (int64_t step = 0; step <= kTracedSteps; ++step) training.step();
  device::synchronize(device);
  auto spans = recorder.end(file.string()).spans;
  const auto beside = file.parent_path() / "spans" / file.filename();
  base::real_files().create_folders(beside.parent_path());
  base::write_atomically(base::real_files(), beside, profile::to_chrome_json(steps.take()));
  spans.erase(spans.begin(), spans.begin() + std::ssize(spans) / (kTracedSteps + 1));
  return spans;
}

TrainRow attempt_training(const Workload& workload, const std::string& mode, Changes changes, int64_t steps,
                          const Watch& watch) {
  if (!mode.empty()) changes.emplace_back("train.optimize", mode);
  std::string named = mode, precision = base::word_of(workload.precision);
  for (const auto& [name, value] : changes)
    if (name == "train.precision") precision = value;
  try {
    const auto config = config_of(workload, changes);
    named = base::word_of(config.train.optimize), precision = base::word_of(config.train.precision);
    return measure_training(workload, config, steps, watch);
  } catch (const base::Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    const std::string what = train::is_out_of_memory(error) ? "out of memory" : error.what();
    return failed_row(workload, named, precision, what.substr(0, what.find('\n')));
  }
}

TrainRow measure_training(const Workload& workload, const train::RunConfig& config, int64_t steps, const Watch& watch) {
  const auto device = device::open_device(config.train.device);
  const bool gpu = device.is_cuda();
  device::allow_tf32(config.train.precision == train::Precision::tf32);
  profile::release_cached_memory(gpu);
  profile::reset_peak(gpu);
  TrainRow row;
  row.workload = workload.name, row.mode = base::word_of(config.train.optimize);
  row.precision = base::word_of(config.train.precision);
  {
    RandomTraining training(config, device, workload.drawn);
    row.parameters = training.shape().parameters, row.trained = training.shape().trained;
    device::synchronize(device);
    const double begun = now();
    training.step();
    row.first_loss = training.loss();
    row.first_step = now() - begun;
    for (int64_t step = 0; step < std::max(kWarmUp, training.batches()); ++step) one_step(training);
    device::synchronize(device);
    if (gpu) rest();
    row.block_steps = block_steps(config, steps);
    const int64_t blocks = blocks_of(steps, row.block_steps);
    row.step = profile::spread_of(timed_blocks(training, device, blocks, row.block_steps, watch.timed));
    if (train::records_graphs(config.train.optimize) && !training.records())
      row.ran_as = base::word_of(train::Optimize::fused);
    row.last_loss = training.loss();
    row.fp8 = fp8_layers(training.fp8());
    if (gpu) row.peak = profile::memory_use(true).peak.value_or(0);
    if (gpu) row.clock = clock_under_load(training, device, row.step.median);
    add_rates(row, config, device::device_text(device));
    if (watch.look) watch.look(training, row);
  }
  profile::release_cached_memory(gpu);
  if (!std::isfinite(row.last_loss)) row.failed = format("the loss became {}", row.last_loss);
  return row;
}

TrainResult run_train_bench(const TrainBenchOptions& options) {
  const auto device = device::open_device(options.device);
  TrainBenchOptions placed = options;
  placed.changes.emplace_back("train.device", options.device);
  if (placed.modes.empty()) placed.modes = {""};
  TrainResult result{device::device_text(device), options.steps, {}, {}, settings_of(options.changes)};
  const auto workloads = find_workloads(options.workloads);
  int64_t rows = 0;
  for (const auto* workload : workloads) {  // what is wrong is said at once
    const auto config = config_of(*workload, placed.changes);
    if (options.peers) check_peers(config, options.peer_modes);
    rows += std::ssize(placed.modes) + (options.peers ? std::ssize(peer_modes(config, options.peer_modes)) : 0);
  }
  ItemProgress progress(rows);
  const auto measure = [&](const Workload* workload) {
    const size_t first = result.rows.size();
    for (const auto& mode : placed.modes) {
      progress.begin(mode.empty() ? workload->name : format("{} {}", workload->name, mode));
      Watch watch;
      watch.timed = [&](int64_t steps) { progress.timed(steps, options.steps); };
      if (options.trace)
        watch.look = [&](RandomTraining& training, TrainRow& row) {
          const auto name = format("{}.{}.json", row.workload, row.mode);
          look_at_kernels(row, training, device, options.folder / "traces" / name);
        };
      result.rows.push_back(attempt_training(*workload, mode, placed.changes, options.steps, watch));
      const auto& row = result.rows.back();
      if (row.failed.empty() && row.precision == base::word_of(train::Precision::fp8) && row.fp8.empty())
        result.notes.push_back(format("{} {}: no layer runs in 8 bits", row.workload, row.mode));
    }
    if (!options.peers) return;
    const auto config = config_of(*workload, placed.changes);
    for (const auto& mode : peer_modes(config, options.peer_modes)) {
      progress.begin(format("{} torch {}", workload->name, mode));
      auto peer = run_peer(*workload, config, mode, options.steps, device.is_cuda() ? "cuda" : "cpu");
      peer.block_steps = block_steps(config, options.steps);
      add_rates(peer, config, result.device_name);
      note_differences(result, result.rows[first], peer);
      result.rows.push_back(std::move(peer));
    }
  };
  try {
    for (const auto* workload : workloads) measure(workload);
  } catch (const base::Interrupted& stop) {
    if (result.rows.empty()) throw;
    result.stopped = stop;
    result.notes.push_back("stopped before the end: what was asked for besides was not measured");
  }
  progress.clear();
  return result;
}

}  // namespace hyperion::bench
