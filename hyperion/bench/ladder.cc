#include "hyperion/bench/ladder.h"

#include <algorithm>

#include "hyperion/base/format.h"
#include "hyperion/base/words.h"
#include "hyperion/bench/item_progress.h"
#include "hyperion/bench/random_training.h"
#include "hyperion/device/device.h"
#include "hyperion/profile/phase_order.h"

namespace hyperion::bench {
namespace {

using base::format;

constexpr int64_t kMarkedSteps = 10;

// A whole step replayed as one graph passes no marks; a CPU replays none.
bool replays(const std::string& mode) {
  const auto optimize = base::from_word<train::Optimize>(mode);
  return optimize && train::records_graphs(*optimize);
}

profile::PhaseTimes marked_phases(RandomTraining& training, bool gpu) {
  std::array<std::vector<double>, 4> times;
  for (int64_t step = 0; step < kMarkedSteps; ++step) {
    const auto timer = profile::make_step_timer(gpu);
    training.step(*timer);
    const auto phases = timer->milliseconds();
    for (size_t i = 0; i < phases.size(); ++i) times[i].push_back(phases[i]);
  }
  profile::PhaseTimes medians{};
  for (size_t i = 0; i < medians.size(); ++i) medians[i] = profile::quantile(times[i], 0.5);
  return medians;
}

void look_at_rung(Rung& rung, TrainRow& row, RandomTraining& training, at::Device device, const base::Path& file) {
  const auto spans = traced_steps(training, device, file);
  row.gaps = profile::gaps_between(spans);
  rung.launches = std::count_if(spans.begin(), spans.end(), [](const auto& span) { return !span.continued; });
  rung.launches /= kTracedSteps;
  rung.kernels = profile::kernel_totals(spans);
  for (auto& kernel : rung.kernels) {
    kernel.milliseconds /= static_cast<double>(kTracedSteps);
    kernel.count = (kernel.count + kTracedSteps / 2) / kTracedSteps;
  }
  if (!rung.phases) {
    rung.phases = profile::phases_by_order(spans, kTracedSteps);
    rung.phases_from_kernels = rung.phases.has_value();
  }
}

Rung climb(const Workload& workload, const std::string& mode, const LadderOptions& options, ItemProgress& progress) {
  Rung rung;
  const auto device = device::open_device(options.device);
  const auto file = options.folder / "traces" / format("{}.{}.json", workload.name, mode);
  Watch watch;
  watch.timed = [&](int64_t steps) { progress.timed(steps, options.steps); };
  watch.look = [&](RandomTraining& training, TrainRow& row) {
    if (!replays(mode) || !device.is_cuda()) rung.phases = marked_phases(training, device.is_cuda());
    if (options.trace) look_at_rung(rung, row, training, device, file);
  };
  rung.row = attempt_training(workload, mode, options.changes, options.steps, watch);
  return rung;
}

}  // namespace

Ladder run_ladder(const Workload& workload, const LadderOptions& given) {
  LadderOptions options = given;
  options.changes.emplace_back("train.device", options.device);
  config_of(workload, options.changes);  // what is wrong with every rung is said at once
  Ladder ladder{workload.name,
                device::device_text(device::open_device(options.device)),
                options.steps,
                {},
                settings_of(given.changes)};
  ItemProgress progress(std::ssize(options.modes));
  try {
    for (const auto& mode : options.modes) {
      progress.begin(format("{} {}", workload.name, mode));
      ladder.rungs.push_back(climb(workload, mode, options, progress));
    }
  } catch (const base::Interrupted& stop) {
    if (ladder.rungs.empty()) throw;
    ladder.stopped = stop;
  }
  progress.clear();
  return ladder;
}

}  // namespace hyperion::bench
