// What a run leaves behind to go on from, and what becomes of a save that fails.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <csignal>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/signals.h"
#include "hyperion/base/version.h"
#include "hyperion/checkpoint/step_folder.h"
#include "hyperion/device/device.h"
#include "hyperion/host/memory.h"
#include "hyperion/interop/peft.h"
#include "hyperion/optim/clip.h"
#include "hyperion/train/training.h"

namespace hyperion::train {

using base::format;

void Trainer::plan_saves() {
  const auto& wished = config_.checkpoint;
  const bool background = wished.async == Background::automatic ? device_.is_cuda() : wished.async == Background::on;
  saver_.emplace(files_, request_.run.checkpoints(),
                 checkpoint::Saver::Options{.retention = {wished.keep, wished.keep_every},
                                            .background = background,
                                            .room = [] { return host::memory().usable(); }},
                 &processes_.saves());
}

// The loss of a step is that before its update: only the weights themselves tell whether they are worth keeping.
void Trainer::check_weights() {
  const at::NoGradGuard no_grad;
  const auto weights = stepper_->trained();
  const auto norm = weights.empty() ? at::zeros({1}) : optim::clip_factor(weights, 0).norm.cpu().reshape({1});
  if (several()) processes_.control().all_reduce(norm, "finite weights").wait();
  if (!std::isfinite(norm.item<double>())) diverged(format("the weights are not finite after step {}", step_));
}

RunState Trainer::state() const {
  RunState state;
  state.cursor = {cursor().samples, feed_ ? sample_hash_ : start_.hash};
  state.numbers = stepper_->numbers();
  state.data_digest = split_.digest, state.base_digest = base_digest_;
  state.threads = device::cpu_threads();
  state.seconds = log_.seconds();
  state.model = model_config_;
  if (config_.lora.rank > 0)
    state.adapter = interop::adapter_config_text(*model_, interop::kRunAdapter, config_.model.from);
  if (!split_.questions.empty()) state.end_token = '\n';  // an answer is a line
  state.validations = validations_;
  state.settings = settings_json(request_.settings);
  return state;
}

checkpoint::Snapshot Trainer::snapshot() const {
  checkpoint::Snapshot snapshot;
  snapshot.step = step_;
  snapshot.version = base::version_text();
  for (auto& item : stepper_->state())
    if (stepper_->saves(item)) snapshot.tensors.push_back(std::move(item));
  snapshot.state = state_text(state());
  if (validations_.best) snapshot.best = validations_.best->step;
  return snapshot;
}

// Whether there is something to save.
bool Trainer::ready_to_save() {
  between_steps();
  settle_save();
  if (saved_step_ == step_) return false;
  request_.run.check_there(saved_step_);
  check_weights();
  return true;
}

void Trainer::save() {
  const double begun = base::now();
  if (!ready_to_save()) return;
  const base::OperationScope scope("checkpoint.save");
  best_saving_ = validations_.best;
  saver_->save(snapshot());
  if (!saver_->background()) settle_save();
  blocked_s_ = base::now() - begun;
}

// At an end: the state is on the disk when it returns.
void Trainer::save_now() {
  if (!ready_to_save()) return;
  const base::OperationScope scope("checkpoint.save");
  best_saving_ = validations_.best;
  saver_->save_now(snapshot());
  const auto failed = settle_save(/*last=*/true);
  if (!failed) return;
  const std::string then = saved_step_ > 0
                               ? format("`hyperion resume {}` goes on from step {}", log_.name(), saved_step_)
                               : format("`hyperion resume {}` begins it again", log_.name());
  throw base::Error(format("the checkpoint of step {}, where the run {}, could not be written in {} tries: {}", step_,
                           step_ < config_.train.steps ? "stops" : "ends", failed->tries, failed->failure),
                    format("{}; then {}", failed->hint, then));
}

// Waits for what is still being written. Returns what failed.
std::optional<checkpoint::SaveOutcome> Trainer::settle_save(bool last) {
  const auto ended = saver_ ? saver_->wait() : std::nullopt;
  if (!ended) return {};
  write_s_ = ended->write_s;
  log_.saved(*ended);
  if (ended->complete()) {
    saved_step_ = ended->step;
    best_kept_ = best_saving_;
    log_.write_record("running");
    return {};
  }
  save_failure_ = ended->failure;
  if (validations_.best_is(ended->step)) log_.best(validations_.best = best_kept_);  // it was not kept
  const int64_t every = config_.checkpoint.every, rest = std::max(every / 10, std::min<int64_t>(every, 10));
  save_again_ = saver_->background() ? -1 : ended->step + rest;
  if (first() && !last)
    base::log(base::LogLevel::error,
              format("no checkpoint of step {}: {}; the run goes on, and {}. {}", ended->step, ended->failure,
                     saved_step_ > 0 ? format("the checkpoint of step {} stays", saved_step_)
                                     : std::string("has no checkpoint yet"),
                     ended->hint));
  log_.write_record("running");
  return ended;
}

// Of a step whose checkpoint was written before its validation: the last one, so that nothing is lost meanwhile.
void Trainer::remember_validation() {
  if (!first()) return;
  checkpoint::replace_state(files_, request_.run.checkpoints() / checkpoint::step_folder_name(step_),
                            state_text(state()));
}

// Several processes stop together: what one was asked is known to all after the next step.
void Trainer::stop_if_asked() {
  const int signal = several() ? stop_ : base::stop_signal();
  if (signal == 0) return;
  log_.keep_line();
  const bool said = base::stop_signal() == SIGTERM;  // by its handler
  base::log(said ? base::LogLevel::debug : base::LogLevel::info,
            format("stopping: writing a checkpoint first{}", signal == SIGINT ? " (Ctrl-C again stops at once)" : ""));
  if (traces_) traces_->finish();
  save_now();
  const bool as_many = several() && !config_.parallel.layout.empty();  // the layout wants them again
  throw base::Interrupted(format("stopped after step {}; the checkpoint is written", step_),
                          base::stop_exit_code(signal),
                          format("go on with: hyperion {}resume {}",
                                 as_many ? format("launch -n {} -- ", processes_.size()) : "", log_.name()));
}

}  // namespace hyperion::train
