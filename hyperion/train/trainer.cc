#include "hyperion/train/trainer.h"

#include <ATen/core/grad_mode.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/signals.h"
#include "hyperion/base/version.h"
#include "hyperion/checkpoint/load.h"
#include "hyperion/checkpoint/save.h"
#include "hyperion/checkpoint/step_folder.h"
#include "hyperion/data/batches.h"
#include "hyperion/host/cpu.h"
#include "hyperion/host/peaks.h"
#include "hyperion/kernels/device.h"
#include "hyperion/optim/clip.h"
#include "hyperion/profile/memory.h"
#include "hyperion/train/evaluate.h"
#include "hyperion/train/run_log.h"
#include "hyperion/train/stepper.h"

namespace hyperion::train {
namespace {

using base::format;
using base::Json;

at::Device open_device(const LoopConfig& train) {
  const bool named = std::getenv("OMP_NUM_THREADS") != nullptr;  // LibTorch read it already
  if (train.threads > 0 || !named)
    kernels::set_cpu_threads(train.threads > 0 ? train.threads : host::this_cpu().usable_cores());
  const at::Device device = kernels::open_device(train.device);
  if (train.deterministic) kernels::use_deterministic_algorithms();
  return device;
}

class Trainer {
 public:
  Trainer(base::FileSystem& files, const TrainRequest& request)
      : files_(files),
        request_(request),
        config_(request.config),
        device_(open_device(config_.train)),
        split_(data::open_data(config_.data, config_.train.length, config_.train.seed)),
        model_(models::make_gpt2(config_.model)),
        shape_(model_->shape(config_.train.length)),
        schedule_(optim::schedule_of(config_.optim, config_.train.steps)),
        log_(files, request, shape_.parameters, kernels::device_text(device_)) {
    if (const auto* peaks = host::find_peaks(kernels::device_text(device_)))
      peak_tflops_ = peaks->of(config_.train.precision);
  }

  void run();
  void leave(const char* status, const std::string& why) noexcept;

 private:
  // A step whose figures are still on the device: read one step later, so that the device never waits for us.
  struct Pending {
    StepResult result;
    std::unique_ptr<profile::StepTimer> timer;
    int64_t step;
    double lr;
  };

  void prepare();
  double restore();  // returns the seconds trained before
  void step();
  void settle();  // reads and tells the figures of the pending step
  void validate();
  void check_weights();
  [[noreturn]] void diverged(const std::string& what);
  void save();
  void stop_if_asked();
  void finish();
  // Work that a stop request cuts short loses no step: the state is saved first.
  template <class Work>
  auto stoppable(Work work) {
    try {
      return work();
    } catch (const base::Interrupted&) {
      stop_if_asked();
      throw;
    }
  }

  base::FileSystem& files_;
  const TrainRequest& request_;
  const RunConfig& config_;
  at::Device device_;
  data::Split split_;
  std::unique_ptr<models::LanguageModel> model_;
  strategy::ModelShape shape_;
  optim::Schedule schedule_;
  RunLog log_;
  std::unique_ptr<Stepper> stepper_;
  data::Cursor cursor_;
  int64_t step_ = 0, saved_step_ = -1;
  double peak_tflops_ = 0;
  std::optional<Pending> pending_;
};

void Trainer::prepare() {
  base::fault_point("train.prepare");
  model_->initialise(config_.train.seed);
  base::throw_if_stopped("preparing the model");
  stepper_ = std::make_unique<Stepper>(*model_, config_, device_);
  const double seconds_before = request_.resume ? restore() : 0;  // sets step_
  log_.begin(step_, seconds_before);
}

double Trainer::restore() {
  const auto& folder = request_.run.checkpoints();
  if (checkpoint::list_checkpoints(files_, folder).empty()) {
    base::log_info("no checkpoint was written yet; starting again from step 0, which gives the same run");
    return 0;
  }
  const auto loaded = checkpoint::load_newest(files_, folder);
  const Json state = base::parse_json(loaded.state, loaded.path.string());
  at::NoGradGuard no_grad;
  for (auto& item : stepper_->state()) {
    const at::Tensor& saved = loaded.tensor(item.name);
    if (saved.sizes() != item.tensor.sizes() || saved.scalar_type() != item.tensor.scalar_type())
      throw base::ConfigError(
          format("{} of {} has another shape or type than this run's", item.name, loaded.path.string()),
          "the model and precision of a run cannot change on resume");
    item.tensor.copy_(saved);
  }
  step_ = saved_step_ = loaded.step;
  cursor_.samples = state.at("cursor").get<int64_t>();
  if (const auto threads = state.at("threads").get<int64_t>(); threads != kernels::cpu_threads() && device_.is_cpu())
    base::log_warn(format("this run used {} threads and now has {}: losses will agree to rounding, not to the bit",
                          threads, kernels::cpu_threads()));
  base::log_info(format("resuming after step {} from {}", step_, loaded.path.string()));
  return state.at("seconds").get<double>();
}

void Trainer::run() {
  base::log_info(format("run {}: {} parameters, {} tokens a step, {} on {}", log_.name(),
                        base::with_commas(shape_.parameters),
                        base::with_commas(config_.train.batch * config_.train.length), config_.train.precision,
                        kernels::device_text(device_)));
  prepare();
  const auto due = [&](int64_t every) { return every > 0 && step_ % every == 0 && step_ < config_.train.steps; };
  while (step_ < config_.train.steps) {
    stop_if_asked();
    step();
    if (due(config_.eval.every)) validate();
    if (due(config_.checkpoint.every)) save();
  }
  finish();
}

void Trainer::step() {
  auto timer = profile::make_step_timer(device_.is_cuda());
  const int64_t number = step_ + 1;
  base::current_activity().step = number;
  base::fault_point("train.step");
  const double lr = schedule_.at(number);
  const auto tokens =
      data::next_batch(*split_.train, cursor_, config_.train.batch, config_.train.length, config_.train.seed);
  auto result = stepper_->run(tokens, number, lr, *timer);
  settle();
  pending_ = Pending{std::move(result), std::move(timer), number, lr};
  step_ = number;
  if (device_.is_cpu()) settle();
}

void Trainer::settle() {
  if (!pending_) return;
  const Pending done = std::move(*pending_);
  pending_.reset();
  report::StepRecord record;
  record.step = done.step;
  record.lr = done.lr;
  record.loss = done.result.loss.item<double>();
  record.grad_norm = done.result.grad_norm.item<double>();
  const auto times = done.timer->milliseconds();
  record.data_wait_ms = times[0], record.forward_ms = times[1], record.backward_ms = times[2],
  record.optimizer_ms = times[3];
  record.step_ms = times[0] + times[1] + times[2] + times[3];
  record.tokens = config_.train.batch * config_.train.length;
  record.tokens_per_s = static_cast<double>(record.tokens) / record.step_ms * 1e3;
  record.tflops = record.tokens_per_s * shape_.flops_token() * 1e-12;
  if (peak_tflops_ > 0) record.mfu = *record.tflops / peak_tflops_;
  const auto memory = profile::memory_use(device_.is_cuda());
  record.memory_allocated = memory.allocated, record.memory_reserved = memory.reserved,
  record.memory_peak = memory.peak;
  log_.step(record);
  if (!std::isfinite(record.loss) || !std::isfinite(record.grad_norm))
    diverged(format("the loss is {} and the gradient norm {} at step {}", record.loss, record.grad_norm, record.step));
}

void Trainer::validate() {
  settle();
  auto result = stoppable([&] { return evaluate(*model_, device_, *split_.validation, config_); });
  result.step = step_;
  log_.evaluation(result);
  if (!std::isfinite(result.loss)) diverged(format("the validation loss is {} after step {}", result.loss, step_));
}

// The loss of a step is that before its update: only the weights themselves tell whether they are worth keeping.
void Trainer::check_weights() {
  std::vector<at::Tensor> weights;
  const at::NoGradGuard no_grad;
  for (const auto& parameter : model_->parameters()) weights.push_back(parameter.tensor);
  const double norm = optim::clip_factor(weights, 0).norm.item<double>();
  if (!std::isfinite(norm)) diverged(format("the weights are not finite after step {}", step_));
}

void Trainer::diverged(const std::string& what) {
  const std::string advice = "try a smaller optim.lr, a longer optim.warmup or optim.clip = 1";
  throw base::Error(what,
                    saved_step_ > 0 ? format("the checkpoint of step {} holds finite weights; {}", saved_step_, advice) : advice);
}

void Trainer::save() {
  settle();
  if (saved_step_ == step_) return;
  check_weights();
  base::OperationScope scope("checkpoint.save");
  checkpoint::Snapshot snapshot;
  snapshot.step = step_;
  snapshot.version = base::version_text();
  for (const auto& item : stepper_->state()) snapshot.tensors.push_back({item.name, item.tensor});
  snapshot.state = Json{{"cursor", cursor_.samples},
                        {"seed", config_.train.seed},
                        {"precision", config_.train.precision},
                        {"threads", kernels::cpu_threads()},
                        {"seconds", log_.seconds()},
                        {"schedule",
                         {{"shape", schedule_.shape},
                          {"peak", schedule_.peak},
                          {"warmup", schedule_.warmup},
                          {"steps", schedule_.steps}}},
                        {"model", Json::parse(models::to_json(config_.model))}}
                       .dump();
  checkpoint::save_checkpoint(files_, request_.run.checkpoints(), snapshot, config_.checkpoint.keep);
  saved_step_ = step_;
  log_.write_record("running");
}

void Trainer::stop_if_asked() {
  const int signal = base::stop_signal();
  if (signal == 0) return;
  base::log_info("stopping: writing a checkpoint first (Ctrl-C again stops at once)");
  save();
  throw base::Interrupted(format("stopped after step {}; the checkpoint is written", step_),
                          base::stop_exit_code(signal), format("go on with: hyperion resume {}", log_.name()));
}

void Trainer::finish() {
  save();
  validate();
  base::current_activity().step = -1;
  log_.progress().clear();
  Answers answers;
  if (!split_.questions.empty()) {
    answers = stoppable([&] {
      return answer_questions(*model_, device_, split_.questions, [&](size_t done, size_t all) {
        log_.progress().show(format("answering {} of {} unseen questions", done, all));
      });
    });
    log_.progress().clear();
    log_.answers(answers.right);
    std::printf("\nunseen questions, and what the model answers:\n%s", sample_lines(answers.samples, 6).c_str());
    std::printf("right: %.1f%% of %zu questions it never saw\n", 100 * answers.right, split_.questions.size());
  }
  log_.write_record("complete");
  try {
    log_.write_report(answers.samples);
    std::printf("report: %s\n", request_.run.report().c_str());
  } catch (const base::CorruptError& error) {  // of old metrics; the run itself is whole
    base::log_warn(format("no report could be written: {}", error.what()));
  }
}

void Trainer::leave(const char* status, const std::string& why) noexcept {
  try {
    log_.write_record(status, why);
  } catch (const std::exception&) {
    // The disk that failed the run may refuse this too; the error itself is on its way to the user.
  }
}

}  // namespace

void train(base::FileSystem& files, const TrainRequest& request) {
  base::log_to_file(request.run.path() / "logs" / "rank-0.log");
  Trainer trainer(files, request);
  try {
    trainer.run();
  } catch (const base::Interrupted&) {
    trainer.leave("stopped", "");
    throw;
  } catch (const std::exception& error) {
    trainer.leave("failed", error.what());
    throw;
  }
}

}  // namespace hyperion::train
