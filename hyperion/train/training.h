// A run's training under way: what trainer.cc steps through, and training_start.cc makes ready.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hyperion/base/error.h"
#include "hyperion/checkpoint/saver.h"
#include "hyperion/comm/traffic.h"
#include "hyperion/data/cursor.h"
#include "hyperion/data/source.h"
#include "hyperion/doctor/job_watch.h"
#include "hyperion/models/model.h"
#include "hyperion/optim/schedule.h"
#include "hyperion/parallel/processes.h"
#include "hyperion/profile/step_traces.h"
#include "hyperion/train/feed.h"
#include "hyperion/train/prompts.h"
#include "hyperion/train/rank_tally.h"
#include "hyperion/train/run_log.h"
#include "hyperion/train/run_state.h"
#include "hyperion/train/staged_model.h"
#include "hyperion/train/stepper.h"
#include "hyperion/train/train_request.h"
#include "hyperion/train/validations.h"

namespace hyperion::train {

class Trainer {
 public:
  Trainer(base::FileSystem& files, const TrainRequest& request);

  void run();
  void leave(const char* status, const std::string& why) noexcept;
  const char* doing() const { return doing_; }

 private:
  // Tokens, or images, of so many samples.
  int64_t units(int64_t samples) const { return samples * (shape_.context > 0 ? config_.train.length : 1); }

  // A step whose figures are still on the device: read one step later, so that the device never waits for us.
  struct Pending {
    StepResult result;
    std::unique_ptr<profile::StepTimer> timer;
    int64_t step;
    double lr;
    int64_t rows, samples;  // of this step, and of the run so far
    uint64_t sample_hash;
  };

  const data::Cursor& cursor() const { return feed_ ? feed_->cursor() : start_; }
  bool begun() const { return request_.start != nullptr && request_.start->has_value(); }  // until it is restored
  bool first() const { return processes_.first(); }
  bool several() const { return processes_.size() > 1; }
  DataShard share() const { return {processes_.batch_index(), processes_.batch_count()}; }
  DataShard measured_share() const { return {processes_.copy_index(), processes_.copy_count()}; }
  std::string described_model() const;
  std::string keep_model_config();
  void announce();
  void prepare();
  void make_model();
  void plan_memory();
  double restore();  // returns the seconds trained before
  void plan_traces();
  void make_traces(const profile::TracePlan& plan);
  void step();
  void tell_others();    // of the last step, and what was asked of the run
  void heed_others();    // what they told
  void look_at_links();  // where all wait longer than they did
  void settle();         // reads and tells the figures of the pending step
  void between_steps();  // and nothing of a step is under way, nor counted as a step's, until the next
  std::optional<double> accuracy_of(const StepResult& result);
  void tell_expert_load(const StepResult& result, report::StepRecord& record);
  void overflowed(int64_t step, double scale);
  void validate();
  void show_outputs(report::EvalRecord& record);
  std::unique_ptr<models::Model> staged(LogitsGo logits);  // null: the model is whole
  void plan_saves();
  void check_weights();
  [[noreturn]] void diverged(const std::string& what, bool before_any_update = false);
  RunState state() const;
  checkpoint::Snapshot snapshot() const;
  bool ready_to_save();
  void save();
  void save_now();
  std::optional<checkpoint::SaveOutcome> settle_save(bool last = false);
  void remember_validation();
  bool due(int64_t every) const { return every > 0 && step_ % every == 0 && step_ < config_.train.steps; }
  // A stop request cut it short.
  bool validation_is_missing() const { return step_ > 0 && due(config_.eval.every) && validations_.last != step_; }
  bool ended_early() const { return step_ < config_.train.steps && validations_.over(config_.train.patience); }
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
  parallel::Processes& processes_;
  at::Device device_;
  data::Split split_;
  std::vector<int64_t> new_tokens_;  // of the data, where the run begins
  std::string model_config_;         // as Hugging Face's config.json
  strategy::ModelShape shape_;
  std::unique_ptr<models::Model> model_;
  models::Values values_;    // of what the model was made without
  std::string base_digest_;  // of the weights an adapter is trained beside
  optim::Schedule schedule_;
  RunLog log_;
  std::unique_ptr<Stepper> stepper_;
  data::Cursor start_;  // where this process began
  std::optional<Feed> feed_;
  std::unique_ptr<profile::StepTraces> traces_;  // null: no step is traced
  double look_for_requests_ = 0;                 // for traces, in the run's folder
  int64_t traced_until_ = 0;
  std::optional<doctor::JobWatch> watch_;  // none: it is not wished for
  const char* doing_ = "preparing the run";
  int64_t step_ = 0, saved_step_ = -1;         // saved_step_: of the newest complete checkpoint
  int64_t save_again_ = -1;                    // the step at which a save that failed is tried again
  std::optional<double> blocked_s_, write_s_;  // of the last save, until a step's record has them
  std::optional<std::string> save_failure_;    // likewise
  Validations validations_;
  std::optional<Validations::Found> best_kept_,
      best_saving_;           // whose checkpoint is complete; once the save under way is
  uint64_t sample_hash_ = 0;  // over all processes
  int stop_ = 0;              // the signal that stops this run, once all processes know of it
  comm::Traffic told_traffic_;
  RankTally tally_{processes_};
  double peak_tflops_ = 0;
  std::optional<Pending> pending_;
  std::optional<Prompts> prompts_;
  std::optional<checkpoint::Saver> saver_;  // last: what it writes may need the others
};

}  // namespace hyperion::train
