// What a run tells: metrics files, the step line, run.json and the report page. Knows no tensors.
#pragma once
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hyperion/base/log.h"
#include "hyperion/report/answers.h"
#include "hyperion/report/metric_sinks.h"
#include "hyperion/report/metrics.h"
#include "hyperion/report/predictions.h"
#include "hyperion/report/run_record.h"
#include "hyperion/train/epochs.h"
#include "hyperion/train/train_request.h"
#include "hyperion/train/validations.h"

namespace hyperion::checkpoint {
struct SaveOutcome;
}

namespace hyperion::train {

// The record of a run that is gone on with; a fresh one where it was killed before it wrote one, or where it is
// damaged, which is told: everything in it but its history can be had again.
report::RunRecord past_record(base::FileSystem& files, const base::Path& run);

// "validation loss 0.4581  perplexity 1.581  token accuracy 85.1%"
std::string evaluation_text(const report::EvalRecord& record);

// Of several processes only the first tells; the others keep their own table of steps.
class RunLog {
 public:
  RunLog(base::FileSystem& files, const TrainRequest& request, const strategy::ModelShape& shape,
         const std::string& device);

  // Before the first step: what is known of time and steps so far. Drops metrics of later steps; `validates_again`: and
  // of a validation of this one.
  void begin(int64_t step_done, double seconds_before, int64_t epoch_samples, bool validates_again);
  void step(const report::StepRecord& record);
  void evaluation(const report::EvalRecord& record);
  void answers(report::AnswerRecord answers);
  void best(const std::optional<Validations::Found>& found);  // whose checkpoint is kept
  void saved(const checkpoint::SaveOutcome& outcome);
  // How much there is of it, and what of an epoch's documents was too long.
  void data(const std::string& text, int64_t cut, int64_t dropped);
  void end_early(const std::string& why);
  void predictions(const report::PredictionRecord& predictions);  // before the evaluation they belong to
  void trained(int64_t parameters) { record_.trained = parameters; }

  // "running" is written again later: where the disk refuses it, that is told once.
  void write_record(const std::string& status, const std::string& failure = {});
  // At an end that is not the run's last step. A run that was complete or stopped, and has gone no step further, stays
  // so.
  void write_end(const std::string& status, const std::string& failure);
  // The page as the run stands now. What cannot be written is told, and false. At validations this happens by itself,
  // unless that would take more than a fiftieth of the time.
  bool write_report();
  void keep_line();  // of the last step, where only a terminal shows it yet

  double seconds() const;  // of training, over all resumes
  const std::string& name() const { return record_.name; }
  base::ProgressLine& progress() { return progress_; }

 private:
  base::FileSystem& files_;
  const TrainRequest& request_;
  strategy::ModelShape shape_;
  int rank_;
  report::RunRecord past_, record_;  // before a resume; now
  std::unique_ptr<report::MetricsWriter> metrics_;
  report::MetricSinks sinks_;
  void tell_restart();
  void begin_sinks(const report::Metrics& before);
  template <class Record>
  void keep(const Record& record);  // in the metrics, with the time
  template <class Write>
  void try_to(const std::string& name, Write write);  // what the run can do without
  void end_epoch(const report::StepRecord& record, const EpochMeans::Mean& mean);

  std::optional<EpochMeans> epochs_;
  int64_t first_step_ = 0, samples_ = 0, documents_cut_ = 0, documents_dropped_ = 0;
  double seconds_before_ = 0, started_, next_report_ = 0;
  std::set<std::string> refused_;  // what could not be written, and was told
  std::string line_;               // of the last step, until it is kept
  base::ProgressLine progress_;
};

}  // namespace hyperion::train
