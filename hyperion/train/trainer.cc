#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/stop_file.h"
#include "hyperion/host/cores.h"
#include "hyperion/parallel/processes.h"
#include "hyperion/parallel/trained_weights.h"
#include "hyperion/profile/memory.h"
#include "hyperion/profile/trace_request.h"
#include "hyperion/train/epochs.h"
#include "hyperion/train/evaluate.h"
#include "hyperion/train/pipeline_record.h"
#include "hyperion/train/predict_images.h"
#include "hyperion/train/preflight.h"
#include "hyperion/train/prompts.h"
#include "hyperion/train/run_log.h"
#include "hyperion/train/stepper.h"
#include "hyperion/train/training.h"

namespace hyperion::train {

using base::format;

void Trainer::run() {
  if (config_.lora.rank == 0) announce();
  if (several()) {
    const auto cores = host::allowed_cores();
    const auto nodes = host::nodes_text("/", cores);
    base::log_info(processes_.text());
    base::log_info(format("rank {} on cores {}{}", processes_.rank(), host::cores_text(cores),
                          nodes.empty() ? "" : ", NUMA node " + nodes));
  }
  if (first())
    for (const auto& change : request_.changes) base::log_info(change);
  if (const auto said = first() ? small_set_text(config_, split_) : ""; !said.empty()) base::log_warn(said);
  prepare();
  if (request_.accepted) request_.accepted();
  if (validation_is_missing()) {
    validate();
    remember_validation();
  }
  while (step_ < config_.train.steps && !ended_early()) {
    stop_if_asked();
    step();
    if (due(config_.parallel.check_every)) {
      between_steps();
      stepper_->check_processes();
    }
    const bool validated = due(config_.eval.every);
    if (validated) validate();
    if ((validated && validations_.best_is(step_)) || due(config_.checkpoint.every) || step_ == save_again_) save();
  }
  finish();
}

void Trainer::step() {
  auto timer = profile::make_step_timer(device_.is_cuda());
  const int64_t number = step_ + 1;
  base::current_activity().step = number;
  doing_ = "training the run";
  base::fault_point("train.step");
  if (tally_.warmed_up()) {
    between_steps();
    tally_.begin_anew();
  }
  if (watch_ && watch_->suspects_links()) look_at_links();
  tell_others();
  tally_.resume();
  if (watch_) watch_->begin(processes_.traffic().exposed);
  const double lr = schedule_.at(number);
  const int64_t before = cursor().samples;
  if (traces_) traces_->before(number);
  const Batch batch = stoppable([&] { return feed_->next(); });
  if (watch_) watch_->has_input();
  // The last step there was on a CPU, where clocks cost nothing; on a GPU that of train.steps, which waits for it.
  stepper_->time_stages(device_.is_cpu() || number == config_.train.steps);
  auto result = stepper_->run(batch, number, lr, *timer);
  if (traces_) traces_->after(number);
  heed_others();
  settle();
  sample_hash_ += result.hash;
  if (result.stop != 0) stop_ = result.stop;
  const int64_t after = cursor().samples;
  pending_ = Pending{std::move(result), std::move(timer), number, lr, after - before, after, sample_hash_};
  step_ = number;
  if (watch_) watch_->end(processes_.traffic().exposed);
  if (device_.is_cpu()) settle();
}

constexpr int64_t kStepsToRecord = 3;  // two as they are, the second of which is traced, and the recording

// What ranks tell each other with a step: what JobWatch says of the last one, then a request for traces.
constexpr size_t kWatched = std::tuple_size_v<doctor::JobWatch::Told>, kAskedOf = kWatched, kAskedSteps = kWatched + 1,
                 kAskedFirst = kWatched + 2;
static_assert(std::tuple_size_v<parallel::Processes::Told> == kWatched + 3);

void Trainer::tell_others() {
  parallel::Processes::Told own{};
  if (watch_) std::ranges::copy(watch_->told(), own.begin());
  if (first() && base::now() > look_for_requests_) {
    look_for_requests_ = base::now() + 0.5;
    const auto& run = request_.run.path();
    base::heed_stop_file(files_, run);
    if (const auto asked = step_ >= traced_until_ ? profile::take_request(files_, run) : std::nullopt) {
      const auto plan = profile::TracePlan::parse(config_.train.profile, "train.profile");
      // Steps that are graphs are recorded anew first, so that their kernels can be told apart.
      const int64_t next = step_ + 2 + (stepper_->records() && !traces_ ? kStepsToRecord : 0);
      const auto answer = profile::answer_to(*asked, plan, next, config_.train.steps, processes_.size());
      profile::answer_request(files_, run, answer);
      if (answer.refused.empty()) {
        own[kAskedOf] = asked->mask(), own[kAskedSteps] = asked->memory ? -asked->steps : asked->steps;
        own[kAskedFirst] = answer.first - 1;  // with the warm-up
        traced_until_ = answer.first + asked->steps;
      }
    }
  }
  processes_.tell(own);
}

void Trainer::heed_others() {
  const auto& asked = processes_.told().front();
  if (const int64_t steps = asked[kAskedSteps]; steps != 0) {
    if (!traces_) make_traces({});  // on all ranks, as all record steps anew
    if (profile::TraceRequest::asks(asked[kAskedOf], processes_.rank()))
      traces_->also({.warm_up = 1, .steps = std::abs(steps), .first = asked[kAskedFirst], .memory = steps < 0});
  }
  if (!watch_) return;
  std::vector<doctor::JobWatch::Told> steps;
  for (const auto& told : processes_.told()) std::copy_n(told.begin(), kWatched, steps.emplace_back().begin());
  for (const auto& slow : watch_->add(steps))
    if (first()) base::log_warn(format("step {}: {}", step_, doctor::slow_text(slow)));
}

void Trainer::look_at_links() {
  between_steps();
  auto& group = processes_.gradients().size() == processes_.size() ? processes_.gradients() : processes_.control();
  const auto slow = watch_->look_at_links(group, processes_.control(), device_);
  if (slow && first()) base::log_warn(format("step {}: {}", step_, doctor::slow_text(*slow)));
}

// All processes settle the same steps in the same order.
std::optional<double> Trainer::accuracy_of(const StepResult& result) {
  if (!result.right.defined()) return {};
  const auto right = result.right.to(at::kCPU, at::kDouble).reshape({1});
  if (several()) processes_.control().all_reduce(right, "right answers").wait();
  return right.item<double>() / std::max(result.counted, 1.0);
}

// The shards of a layer all route the same tokens.
void Trainer::tell_expert_load(const StepResult& result, report::StepRecord& record) {
  if (!result.expert_load.defined()) return;
  const auto counted = result.expert_load.to(at::kCPU, at::kLong);
  if (processes_.mesh().index(strategy::Axis::tp) > 0) counted.zero_();
  if (several()) processes_.control().all_reduce(counted, "expert load").wait();
  const auto load = nn::load_of(counted, model_->experts().capacity > 0);
  record.expert_busiest = load.busiest, record.expert_idle = load.idle, record.expert_dropped = load.dropped;
}

void Trainer::between_steps() {
  settle();
  stepper_->weights().settle();
  tally_.pause();
}

void Trainer::settle() {
  if (!pending_) return;
  Pending done = std::move(*pending_);
  pending_.reset();
  done.result.decide();
  report::StepRecord record;
  record.step = done.step;
  record.lr = done.lr;
  record.loss = done.result.loss.item<double>();
  record.grad_norm = done.result.grad_norm.item<double>();
  record.accuracy = accuracy_of(done.result);
  tell_expert_load(done.result, record);
  const auto times = done.timer->milliseconds();
  record.data_wait_ms = times[0], record.forward_ms = times[1], record.backward_ms = times[2],
  record.optimizer_ms = times[3];
  record.step_ms = times[0] + times[1] + times[2] + times[3];
  record.tokens = units(done.rows);
  record.samples = done.samples;
  record.sample_hash = format("{:016x}", done.sample_hash);
  record.tokens_per_s = static_cast<double>(record.tokens) / record.step_ms * 1e3;
  record.tflops = record.tokens_per_s * shape_.flops_token() * 1e-12;
  if (peak_tflops_ > 0) record.mfu = *record.tflops / peak_tflops_ / processes_.size();
  if (several()) {
    const auto traffic = processes_.traffic();
    record.comm_ms = (traffic.exposed - told_traffic_.exposed) * 1e3;
    record.comm_total_ms = (traffic.seconds - told_traffic_.seconds) * 1e3;
    record.comm_bytes = traffic.bytes - told_traffic_.bytes;
    told_traffic_ = traffic;
  }
  if (watch_) {
    record.stopped_ms = watch_->last().stopped * 1e3;
    if (!watch_->now().empty()) record.held_up = doctor::held_up_text(watch_->now().front());
    const auto& gpu = watch_->gpu();
    record.gpu_clock = gpu.clock, record.gpu_power = gpu.power, record.gpu_temperature = gpu.temperature;
    record.gpu_busy = gpu.busy;
    if (gpu.slowed && *gpu.slowed != host::Slowed::nothing) record.gpu_slowed = host::slowed_text(*gpu.slowed);
    if (gpu.power) record.energy = *gpu.power * record.step_ms / 1e3;
  }
  record.checkpoint_blocked_s = std::exchange(blocked_s_, std::nullopt);
  record.checkpoint_write_s = std::exchange(write_s_, std::nullopt);
  record.checkpoint_failure = std::exchange(save_failure_, std::nullopt);
  const auto memory = profile::memory_use(device_.is_cuda());
  record.memory_allocated = memory.allocated, record.memory_reserved = memory.reserved,
  record.memory_peak = memory.peak;
  tally_.add_step(record.step_ms / 1e3);
  log_.step(record);
  if (done.result.skipped) return overflowed(record.step, done.result.loss_scale);
  if (!std::isfinite(record.loss) || !std::isfinite(record.grad_norm))
    diverged(format("the loss is {} and the gradient norm {} at step {}", record.loss, record.grad_norm, record.step),
             record.step == 1);
}

// The first steps of fp16 often overflow until the scale has come down to what the gradients allow.
void Trainer::overflowed(int64_t step, double scale) {
  if (scale < 1) diverged(format("the gradients of step {} are beyond fp16 even without a loss scale", step));
  base::log_info(format("step {} was skipped: its gradients overflowed fp16; the loss scale is now {:g}", step, scale));
}

std::unique_ptr<models::Model> Trainer::staged(LogitsGo logits) {
  return !processes_.share_model() ? nullptr : make_staged_model(*model_, stepper_->stages(), processes_, logits);
}

// What the model says or sees, for people. Where its weights are cut all processes take part, where others have stages,
// layers' shards or experts the first of each, else the first alone.
void Trainer::show_outputs(report::EvalRecord& record) {
  auto& weights = stepper_->weights();
  const bool cut = weights.block_hook() != nullptr;
  const auto of_stages = staged(LogitsGo::to_all);
  auto& model = of_stages ? *of_stages : *model_;
  if (split_.validation_images) {
    if (!cut && !processes_.in_first_model()) return;
    auto pictures = predict_images(model, device_, split_, config_, weights);
    if (first() || cut) log_.predictions({step_, std::move(pictures)});
    return;
  }
  if (prompts_->empty()) return;
  std::optional<parallel::TrainedWeights::Whole> whole;  // decoding knows no blocks
  if (cut) whole.emplace(weights);
  if (!processes_.in_first_model()) return;
  auto said = stoppable([&] { return prompts_->ask(model, device_, !several()); });
  if (first()) record.samples = std::move(said);
}

void Trainer::validate() {
  between_steps();
  const EvalRanks among{processes_.control(), &stepper_->weights(), measured_share()};
  const auto of_stages = staged(LogitsGo::to_last);
  auto result = stoppable([&] { return evaluate(of_stages ? *of_stages : *model_, device_, split_, config_, &among); });
  result.step = step_;
  if (std::isfinite(result.loss)) show_outputs(result);  // may be cut short: the validation counts once it is whole
  const bool kept = config_.checkpoint.best && config_.checkpoint.every > 0;
  if (std::isfinite(result.loss)) validations_.add({step_, result.loss}, config_.train.min_delta, kept);
  if (validations_.best) result.best_step = validations_.best->step;
  if (ended_early()) result.early_stop = validations_.waited_text(config_.train.min_delta);
  log_.best(validations_.best);
  log_.evaluation(result);
  if (!std::isfinite(result.loss)) diverged(format("the validation loss is {} after step {}", result.loss, step_));
}

// What step 1 computes comes before any update: no learning rate has a part in it.
void Trainer::diverged(const std::string& what, bool before_any_update) {
  if (before_any_update)
    throw base::Error(
        what, format("nothing was learned before it: look for nan, inf and huge values in {}{}",
                     config_.model.from.empty() ? "the data"
                                                : format("the weights of model.from = \"{}\"", config_.model.from),
                     config_.train.precision == Precision::fp32 ? "" : ", or try --precision fp32"));
  settle_save();
  const std::string advice = "try a smaller optim.lr, a longer optim.warmup or optim.clip = 1";
  throw base::Error(what, saved_step_ > 0
                              ? format("the checkpoint of step {} holds finite weights; {}", saved_step_, advice)
                              : advice);
}

void Trainer::finish() {
  if (traces_) traces_->finish();
  save_now();
  tally_.write(files_, request_.run.path(), stepper_->held());
  if (const auto told = draw_pipeline(files_, request_.run.pipeline(), processes_, *stepper_); !told.empty())
    base::log_info(told);
  if (ended_early()) {
    log_.end_early(validations_.waited_text(config_.train.min_delta));
  } else {
    validate();
    remember_validation();
  }
  base::current_activity().step = -1;
  doing_ = "finishing the run, after its last step";
  log_.progress().clear();
  std::optional<parallel::TrainedWeights::Whole> whole;  // a model that is cut may have no room to be so without need
  if (!split_.questions.empty()) whole.emplace(stepper_->weights());
  const auto of_stages = staged(LogitsGo::to_all);
  if (!processes_.in_first_model()) return;
  Answers answers;
  if (!split_.questions.empty() && (first() || of_stages))
    answers = stoppable([&] {
      return answer_questions(
          of_stages ? *of_stages : *model_, device_, split_.questions,
          [&](size_t done, size_t all) {
            if (first()) log_.progress().show(format("answering {} of {} unseen questions", done, all));
          },
          /*stoppable=*/!of_stages);
    });
  if (!first()) return;  // what is left is the first process's alone
  if (!split_.questions.empty()) {
    log_.progress().clear();
    log_.answers({step_, answers.right, answers.samples});
    base::print_lines("\nunseen questions, and what the model answers:\n" + sample_lines(answers.samples, 6));
    base::print_lines(
        format("right: {:.1f}% of {} questions it never saw", 100 * answers.right, split_.questions.size()));
  }
  if (validations_.best && !validations_.best_is(step_))
    base::log_info(format("the best validation loss was {:.4f}, of step {}: {}@best", validations_.best->loss,
                          validations_.best->step, log_.name()));
  log_.write_record("complete");
  if (log_.write_report()) base::print_lines("report: " + request_.run.report().string());
}

void Trainer::leave(const char* status, const std::string& why) noexcept {
  try {
    log_.keep_line();
    log_.write_end(status, why);
    log_.write_report();
  } catch (const std::exception&) {
    // The disk that failed the run may refuse this too; the error itself is on its way to the user.
  }
}

void train(base::FileSystem& files, const TrainRequest& request) {
  if (request.processes == nullptr) {
    const auto alone = parallel::Processes::alone(request.config.parallel);
    TrainRequest with_processes = request;
    with_processes.processes = alone.get();
    return train(files, with_processes);
  }
  const int rank = request.processes->rank();
  base::current_activity().rank = rank;
  base::configure_log({rank == 0 ? base::LogLevel::info : base::LogLevel::warn, rank});
  base::log_to_file(request.run.path() / "logs" / format("rank-{}.log", rank));
  Trainer trainer(files, request);
  try {
    trainer.run();
  } catch (const base::Interrupted&) {
    trainer.leave("stopped", "");
    throw;
  } catch (const base::Error& error) {
    trainer.leave("failed", error.what());
    throw;
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) {
      trainer.leave("failed", error.what());
      throw;
    }
    const auto told = out_of_memory_error(error, trainer.doing());
    trainer.leave("failed", told.what());
    throw told;
  }
}

}  // namespace hyperion::train
