#include "hyperion/train/trainer.h"

#include <ATen/core/grad_mode.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "hyperion/base/clock.h"
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
#include "hyperion/kernels/device.h"
#include "hyperion/profile/memory.h"
#include "hyperion/report/metrics.h"
#include "hyperion/report/page.h"
#include "hyperion/report/step_line.h"
#include "hyperion/train/evaluate.h"
#include "hyperion/train/stepper.h"

namespace hyperion::train {
namespace {

using base::format;
using base::Json;

class Trainer {
 public:
  Trainer(base::FileSystem& files, const TrainRequest& request)
      : files_(files), request_(request), config_(request.config), device_(open_device(request.config.train)),
        split_(data::open_data(config_.data, config_.train.length, config_.train.seed)),
        model_(models::make_gpt2(config_.model)), schedule_(optim::schedule_of(config_.optim, config_.train.steps)) {
    model_->initialise(config_.train.seed);
    stepper_ = std::make_unique<Stepper>(*model_, config_, device_);
    shape_ = model_->shape(config_.train.length);
    begin_record();
    if (request.resume) restore();
    metrics_ = std::make_unique<report::MetricsWriter>(files_, request.run.path(), 0, step_);
  }

  void run();
  void fail(const std::string& why) noexcept;

 private:
  // A step whose figures are still on the device: read one step later, so that the device never waits for us.
  struct Pending {
    StepResult result;
    std::unique_ptr<profile::StepTimer> timer;
    int64_t step;
    double lr;
  };

  static at::Device open_device(const LoopConfig& train) {
    const bool named = std::getenv("OMP_NUM_THREADS") != nullptr;  // LibTorch read it already
    if (train.threads > 0 || !named) kernels::set_cpu_threads(train.threads > 0 ? train.threads : host::this_cpu().usable_cores());
    const at::Device device = kernels::open_device(train.device);
    if (train.deterministic) kernels::use_deterministic_algorithms();
    return device;
  }

  void begin_record();
  void restore();
  void step();
  void settle();  // reads and writes the figures of the pending step
  void show(const report::StepRecord& record);
  void validate();
  void save();
  void stop_if_asked();
  void finish();
  void write_record(const std::string& status);
  void write_report(const std::vector<report::Sample>& samples);

  base::FileSystem& files_;
  const TrainRequest& request_;
  const RunConfig& config_;
  at::Device device_;
  data::Split split_;
  std::unique_ptr<models::LanguageModel> model_;
  optim::Schedule schedule_;
  std::unique_ptr<Stepper> stepper_;
  strategy::ModelShape shape_;
  std::unique_ptr<report::MetricsWriter> metrics_;
  report::RunRecord record_;
  data::Cursor cursor_;
  int64_t step_ = 0, first_step_ = 0, saved_step_ = -1;
  double seconds_before_ = 0, started_ = base::real_clock().seconds();
  std::optional<Pending> pending_;
  base::ProgressLine progress_;
};

void Trainer::begin_record() {
  if (request_.resume && files_.exists(request_.run.path() / "run.json")) {
    record_ = report::read_run_record(files_, request_.run.path());
    record_.failure.clear();
  } else {
    record_.created = base::utc_text(base::real_clock().unix_seconds());
    record_.recipe = request_.recipe;
  }
  record_.name = request_.run.name();
  record_.steps = config_.train.steps;
  record_.parameters = shape_.parameters;
  record_.environment = environment_facts(kernels::device_text(device_));
  write_record("running");
}

void Trainer::restore() {
  const auto& folder = request_.run.checkpoints();
  if (checkpoint::list_checkpoints(files_, folder).empty()) {
    base::log_info("no checkpoint was written yet; starting again from step 0, which gives the same run");
    return;
  }
  const auto loaded = checkpoint::load_newest(files_, folder);
  const Json state = base::parse_json(loaded.state, loaded.path.string());
  at::NoGradGuard no_grad;
  for (auto& item : stepper_->state()) {
    const at::Tensor& saved = loaded.tensor(item.name);
    if (saved.sizes() != item.tensor.sizes() || saved.scalar_type() != item.tensor.scalar_type())
      throw base::ConfigError(format("{} of {} has another shape or type than this run's", item.name, loaded.path.string()),
                              "the model and precision of a run cannot change on resume");
    item.tensor.copy_(saved);
  }
  step_ = first_step_ = saved_step_ = loaded.step;
  cursor_.samples = state.at("cursor").get<int64_t>();
  seconds_before_ = state.at("seconds").get<double>();
  if (const auto threads = state.at("threads").get<int64_t>(); threads != kernels::cpu_threads() && device_.is_cpu())
    base::log_warn(format("this run used {} threads and now has {}: losses will agree to rounding, not to the bit", threads,
                          kernels::cpu_threads()));
  base::log_info(format("resuming after step {} from {}", step_, loaded.path.string()));
}

void Trainer::run() {
  base::log_info(format("run {}: {} parameters, {} tokens a step, {} on {}", record_.name, base::with_commas(shape_.parameters),
                        base::with_commas(config_.train.batch * config_.train.length), config_.train.precision,
                        kernels::device_text(device_)));
  started_ = base::real_clock().seconds();
  const int64_t steps = config_.train.steps;
  while (step_ < steps) {
    stop_if_asked();
    step();
    const bool last = step_ == steps;
    if (!last && config_.eval.every > 0 && step_ % config_.eval.every == 0) validate();
    if (!last && config_.checkpoint.every > 0 && step_ % config_.checkpoint.every == 0) save();
  }
  finish();
}

void Trainer::step() {
  auto timer = profile::make_step_timer(device_.is_cuda());
  const int64_t number = step_ + 1;
  base::current_activity().step = number;
  base::fault_point("train.step");
  const double lr = schedule_.at(number);
  const auto tokens = data::next_batch(*split_.train, cursor_, config_.train.batch, config_.train.length, config_.train.seed);
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
  record.data_wait_ms = times[0], record.forward_ms = times[1], record.backward_ms = times[2], record.optimizer_ms = times[3];
  record.step_ms = times[0] + times[1] + times[2] + times[3];
  record.tokens = config_.train.batch * config_.train.length;
  record.tokens_per_s = static_cast<double>(record.tokens) / record.step_ms * 1e3;
  record.tflops = record.tokens_per_s * shape_.flops_token() * 1e-12;
  const auto memory = profile::memory_use(device_.is_cuda());
  record.memory_allocated = memory.allocated, record.memory_reserved = memory.reserved, record.memory_peak = memory.peak;
  metrics_->write(record);
  record_.loss = record.loss;
  record_.step = record.step;
  show(record);
  if (!std::isfinite(record.loss) || !std::isfinite(record.grad_norm))
    throw base::Error(format("the loss is {} and the gradient norm {} at step {}", record.loss, record.grad_norm, record.step),
                      "the checkpoints written before are good; try a smaller optim.lr, a longer optim.warmup or optim.clip = 1");
}

void Trainer::show(const report::StepRecord& record) {
  const int64_t steps = config_.train.steps;
  const double eta = static_cast<double>(steps - record.step) * (base::real_clock().seconds() - started_) /
                     static_cast<double>(std::max<int64_t>(1, record.step - first_step_));
  const std::string line = report::step_line(record, steps, eta);
  if (progress_.live()) return progress_.show(line);
  if (record.step % config_.train.log_every == 0 || record.step == 1 || record.step == steps) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }
}

void Trainer::validate() {
  settle();
  auto result = evaluate(*model_, device_, *split_.validation, config_);
  result.step = step_;
  metrics_->write(result);
  record_.validation_loss = result.loss, record_.perplexity = result.perplexity, record_.token_accuracy = result.token_accuracy;
  base::log_info(format("step {}  validation loss {:.4f}  perplexity {:.3f}  token accuracy {:.1f}%", step_, result.loss,
                        result.perplexity, 100 * result.token_accuracy));
}

void Trainer::save() {
  settle();
  if (saved_step_ == step_) return;
  base::OperationScope scope("checkpoint.save");
  checkpoint::Snapshot snapshot;
  snapshot.step = step_;
  snapshot.version = base::version_text();
  for (const auto& item : stepper_->state()) snapshot.tensors.push_back({item.name, item.tensor});
  snapshot.state = Json{{"cursor", cursor_.samples},
                        {"seed", config_.train.seed},
                        {"precision", config_.train.precision},
                        {"threads", kernels::cpu_threads()},
                        {"seconds", record_.seconds},
                        {"schedule", {{"shape", schedule_.shape}, {"peak", schedule_.peak}, {"warmup", schedule_.warmup}, {"steps", schedule_.steps}}},
                        {"model", Json::parse(models::to_json(config_.model))}}
                       .dump();
  checkpoint::save_checkpoint(files_, request_.run.checkpoints(), snapshot, config_.checkpoint.keep);
  saved_step_ = step_;
  write_record("running");
}

void Trainer::stop_if_asked() {
  const int signal = base::stop_signal();
  if (signal == 0) return;
  base::log_info("stopping: writing a checkpoint first (Ctrl-C again stops at once)");
  save();
  write_record("stopped");
  throw base::Interrupted(format("stopped after step {}; the checkpoint is written", step_), base::stop_exit_code(signal),
                          format("go on with: hyperion resume {}", record_.name));
}

void Trainer::finish() {
  validate();
  save();
  base::current_activity().step = -1;
  progress_.clear();
  Answers answers;
  if (!split_.questions.empty()) {
    answers = answer_questions(*model_, device_, split_.questions,
                               [&](size_t done, size_t all) { progress_.show(format("answering {} of {} unseen questions", done, all)); });
    progress_.clear();
    record_.answers_right = answers.right;
    std::printf("\nunseen questions, and what the model answers:\n%s", sample_lines(answers.samples, 6).c_str());
    std::printf("right: %.1f%% of %zu questions it never saw\n", 100 * answers.right, split_.questions.size());
  }
  write_record("complete");
  write_report(answers.samples);
  std::printf("report: %s\n", request_.run.report().c_str());
}

void Trainer::write_record(const std::string& status) {
  record_.status = status;
  record_.updated = base::utc_text(base::real_clock().unix_seconds());
  record_.seconds = seconds_before_ + base::real_clock().seconds() - started_;
  report::write_run_record(files_, request_.run.path(), record_);
}

void Trainer::write_report(const std::vector<report::Sample>& samples) {
  report::RunPage page;
  page.title = record_.name;
  page.lead = format("GPT-2 style model, {} layers of width {}, trained on {} in {}.", config_.model.layers, config_.model.width,
                     config_.data.source == "sums" ? "worked sums" : config_.data.path, config_.train.precision);
  page.metrics = report::read_metrics(files_.read(request_.run.metrics()), request_.run.metrics().string());
  if (record_.answers_right && !page.metrics.evaluations.empty()) page.metrics.evaluations.back().answers_right = record_.answers_right;
  page.total_steps = config_.train.steps;
  page.parameters = shape_.parameters;
  page.seconds = record_.seconds;
  page.samples.assign(samples.begin(), samples.begin() + std::min<size_t>(samples.size(), 24));
  page.config = report::config_rows(request_.settings);
  page.environment = record_.environment;
  for (const auto& entry : checkpoint::list_checkpoints(files_, request_.run.checkpoints()))
    page.checkpoints.push_back({entry.step, entry.path.string(), entry.bytes, ""});
  base::write_atomically(files_, request_.run.report(), report::run_page(page));
}

void Trainer::fail(const std::string& why) noexcept {
  try {
    record_.failure = why;
    write_record("failed");
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
    throw;
  } catch (const std::exception& error) {
    trainer.fail(error.what());
    throw;
  }
}

}  // namespace hyperion::train
