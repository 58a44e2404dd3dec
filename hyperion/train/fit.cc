#include "hyperion/train/fit.h"

#include "hyperion/base/log.h"
#include "hyperion/device/device.h"
#include "hyperion/parallel/processes.h"
#include "hyperion/report/step_line.h"
#include "hyperion/train/stepper.h"

namespace hyperion::train {
namespace {

void show(base::ProgressLine& progress, const report::StepRecord& record, const LoopConfig& train) {
  const std::string line = report::step_line(record, train.steps, std::nullopt, "rows/s");
  if (record.step % train.log_every != 0 && record.step != 1 && record.step != train.steps) return progress.show(line);
  progress.clear();
  base::print_lines(line);
}

}  // namespace

double fit(models::Model& model, const RunConfig& config, const std::function<Batch(int64_t step)>& batch,
           const LossFunction& loss, parallel::Processes* processes) {
  const LoopConfig& train = config.train;
  const at::Device device = device::open_device(train.device);
  device::allow_tf32(train.precision == Precision::tf32);
  Stepper stepper(model, config, device, loss, processes);
  const auto schedule = optim::schedule_of(config.optim, train.steps);
  base::ProgressLine progress;
  const int64_t tail = std::max<int64_t>(1, train.steps / 10);
  double sum = 0;
  for (int64_t step = 1; step <= train.steps; ++step) {
    const auto timer = profile::make_step_timer(device.is_cuda());
    const auto result = stepper.run(batch(step), step, schedule.at(step), *timer);
    report::StepRecord record;
    record.step = step;
    record.loss = result.loss.item<double>();
    record.grad_norm = result.grad_norm.item<double>();
    record.lr = schedule.at(step);
    for (const double part : timer->milliseconds()) record.step_ms += part;
    record.tokens_per_s = static_cast<double>(train.batch) / record.step_ms * 1e3;
    if (processes == nullptr || processes->first()) show(progress, record, train);
    if (step > train.steps - tail) sum += record.loss;
  }
  progress.clear();
  return sum / static_cast<double>(tail);
}

}  // namespace hyperion::train
