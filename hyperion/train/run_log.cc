#include "hyperion/train/run_log.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/checkpoint/saver.h"
#include "hyperion/host/launch.h"
#include "hyperion/host/restart.h"
#include "hyperion/parallel/processes.h"
#include "hyperion/report/step_line.h"
#include "hyperion/train/prompts.h"
#include "hyperion/train/run_report.h"

namespace hyperion::train {

using base::format;

namespace {

constexpr double kReportRest = 50;  // times what writing the page took, until a validation writes it again

// Of a model that has learned nothing. Empty where its first loss is about that of a guess among all classes.
std::string first_loss_text(double loss, int64_t classes) {
  constexpr double kTooFar = 3;
  const double guess = std::log(static_cast<double>(std::max<int64_t>(classes, 2)));
  if (!(loss > kTooFar * guess)) return {};
  return format(
      "the first loss is {:.2f}, and a guess among {} has ln({}) = {:.2f}: weights begin too large "
      "(initializer_range of config.json), or inputs or targets are not what the model takes",
      loss, base::with_commas(classes), classes, guess);
}

}  // namespace

report::RunRecord past_record(base::FileSystem& files, const base::Path& run) {
  report::RunRecord fresh;
  fresh.created = base::utc_text(base::real_clock().unix_seconds());
  if (!files.exists(run / "run.json")) return fresh;
  try {
    return report::read_run_record(files, run);
  } catch (const base::CorruptError& error) {
    base::log_warn(format("{}; it is written anew", error.what()));
    return fresh;
  }
}

std::string evaluation_text(const report::EvalRecord& record) {
  std::string text =
      format("{} {:.4f}", record.split == "training" ? "an epoch is over: mean training loss" : "validation loss",
             record.loss);
  if (record.perplexity) text += format("  perplexity {:.3f}", *record.perplexity);
  if (record.token_accuracy) text += format("  token accuracy {:.1f}%", 100 * *record.token_accuracy);
  if (record.top_1) text += format("  top 1 {:.1f}%", 100 * *record.top_1);
  if (record.top_5) text += format("  top 5 {:.1f}%", 100 * *record.top_5);
  return text;
}

RunLog::RunLog(base::FileSystem& files, const TrainRequest& request, const strategy::ModelShape& shape,
               const std::string& device)
    : files_(files),
      request_(request),
      shape_(shape),
      rank_(request.processes->rank()),
      started_(base::real_clock().seconds()) {
  if (request.resume) record_ = past_ = past_record(files_, request.run.path());
  if (!request.resume) record_.created = base::utc_text(base::real_clock().unix_seconds());
  if (record_.recipe.empty()) record_.recipe = request.recipe;
  seconds_before_ = record_.seconds;
  record_.name = request.run.name();
  record_.steps = request.config.train.steps;
  record_.parameters = shape.parameters;
  record_.trained = shape.trained;
  record_.environment = environment_facts(device);
  if (!request.resume) write_record("running");
}

// The part of the epoch that was trained before is in the metrics.
void RunLog::begin(int64_t step_done, double seconds_before, int64_t epoch_samples, bool validates_again) {
  first_step_ = record_.step = step_done;
  seconds_before_ = seconds_before;
  started_ = base::real_clock().seconds();
  metrics_ = std::make_unique<report::MetricsWriter>(files_, request_.run.path(), rank_, step_done,
                                                     validates_again ? step_done : INT64_MAX);
  epochs_.emplace(epoch_samples);
  samples_ = 0;
  record_.ended.clear();
  tell_restart();
  if (request_.resume) write_record("running");
  if (rank_ != 0) return;
  const auto before = step_done > 0 ? report::read_metrics(files_.read(request_.run.metrics())) : report::Metrics{};
  for (const auto& record : before.steps) {
    epochs_->add(samples_, record.samples, record.loss, record.accuracy);
    samples_ = record.samples;
  }
  begin_sinks(before);
}

// By a launcher that started the job again after something failed.
void RunLog::tell_restart() {
  const auto launch = host::find_launch();
  if (rank_ != 0 || launch.restarts == 0) return;
  const char* after = std::getenv(host::kRestartedAfterVariable);
  ++record_.restarts;
  record_.restarted = first_step_ > 0 ? format("from step {}", first_step_) : "from its beginning";
  if (after != nullptr) record_.restarted += format(", after {}", after);
  base::log_info(format("restart {} goes on {}", launch.restarts, record_.restarted));
}

void RunLog::begin_sinks(const report::Metrics& before) {
  report::SinkRun run{.name = record_.name, .settings = base::values_of(request_.settings)};
  run.begun = base::unix_seconds_of(record_.created).value_or(base::real_clock().unix_seconds());
  for (const auto tool : report::metric_tools(request_.config.train.report_to, "train.report_to"))
    sinks_.open(tool, files_, request_.run.path(), run, before);
}

template <class Record>
void RunLog::keep(const Record& record) {
  auto timed = record;
  timed.unix_s = base::real_clock().unix_seconds();
  metrics_->write(timed);
  if (rank_ == 0) sinks_.write(timed);
}

void RunLog::end_epoch(const report::StepRecord& record, const EpochMeans::Mean& mean) {
  const int64_t epochs = request_.config.train.epochs;
  report::EvalRecord told{.step = record.step, .split = "training", .loss = mean.loss};
  (shape_.context > 0 ? told.token_accuracy : told.top_1) = mean.accuracy;
  std::string more = mean.accuracy ? format("  accuracy {:.1f}%", 100 * *mean.accuracy) : "";
  const auto tell = [&](int64_t count, std::optional<int64_t>& member, const char* what) {
    if (count == 0) return;
    member = count;
    more += format("; {} documents {}", base::with_commas(count), what);
  };
  tell(documents_cut_, told.documents_cut, "cut");
  tell(documents_dropped_, told.documents_dropped, "dropped");
  keep(told);
  keep_line();
  base::log_info(format("step {}  epoch {}{} is over: mean training loss {:.4f}{}", record.step, mean.epoch,
                        epochs > 0 ? format(" of {}", epochs) : "", mean.loss, more));
}

void RunLog::step(const report::StepRecord& record) {
  keep(record);
  record_.loss = record.loss;
  record_.step = record.step;
  if (rank_ != 0) return;
  const int64_t steps = record_.steps, done = std::max<int64_t>(1, record.step - first_step_);
  const double eta =
      static_cast<double>(steps - record.step) * (base::real_clock().seconds() - started_) / static_cast<double>(done);
  line_ = report::step_line(record, steps, eta, shape_.context > 0 ? "tok/s" : "img/s");
  const bool kept = record.step % request_.config.train.log_every == 0 || record.step == first_step_ + 1;
  if (kept || record.step == steps)
    keep_line();
  else
    progress_.show(line_);
  if (record.step == 1 && request_.config.model.from.empty())
    if (const auto said = first_loss_text(record.loss, shape_.vocabulary); !said.empty()) base::log_warn(said);
  if (const auto mean =
          epochs_->add(std::exchange(samples_, record.samples), record.samples, record.loss, record.accuracy))
    end_epoch(record, *mean);
}

void RunLog::keep_line() {
  if (line_.empty()) return;
  progress_.clear();
  base::print_lines(line_);
  line_.clear();
}

void RunLog::evaluation(const report::EvalRecord& record) {
  keep(record);
  record_.validation_loss = record.loss;
  record_.perplexity = record.perplexity;
  record_.token_accuracy = record.token_accuracy;
  record_.top_1 = record.top_1;
  record_.top_5 = record.top_5;
  base::log_info(format("step {}  {}{}", record.step, evaluation_text(record),
                        record.best_step == record.step ? "  the best so far" : ""));
  for (const auto& sample : record.samples)
    base::log_info(format("step {}  {}", record.step, continuation_line(sample)));
  if (base::real_clock().seconds() >= next_report_) write_report();
}

void RunLog::data(const std::string& text, int64_t cut, int64_t dropped) {
  record_.data = text;
  documents_cut_ = cut, documents_dropped_ = dropped;
}

void RunLog::best(const std::optional<Validations::Found>& found) {
  record_.best_step.reset(), record_.best_loss.reset();
  if (found) record_.best_step = found->step, record_.best_loss = found->loss;
}

void RunLog::saved(const checkpoint::SaveOutcome& outcome) {
  if (outcome.complete()) {
    record_.saved_step = outcome.step;
    record_.failed_save.clear();
    return;
  }
  ++record_.failed_saves;
  record_.failed_save = format("step {}: {}", outcome.step, outcome.failure);
}

template <class Write>
void RunLog::try_to(const std::string& name, Write write) {
  try {
    write();
    refused_.erase(name);
  } catch (const base::FileError& error) {
    if (refused_.insert(name).second)
      base::log_warn(format("{} could not be written; the run goes on: {}", name, error.what()));
  }
}

void RunLog::end_early(const std::string& why) {
  record_.ended = why;
  keep_line();
  base::log_info(format("run {} ends early, after step {} of {}: {}", name(), record_.step, record_.steps, why));
}

void RunLog::predictions(const report::PredictionRecord& predictions) {
  if (rank_ == 0)
    try_to("predictions.json", [&] { report::write_predictions(files_, request_.run.path(), predictions); });
}

double RunLog::seconds() const { return seconds_before_ + base::real_clock().seconds() - started_; }

void RunLog::write_record(const std::string& status, const std::string& failure) {
  if (rank_ != 0 || !request_.run.is_there()) return;
  record_.status = status;
  record_.failure = failure;
  record_.updated = base::utc_text(base::real_clock().unix_seconds());
  record_.seconds = seconds();
  const auto write = [&] { report::write_run_record(files_, request_.run.path(), record_); };
  if (status == "running") return try_to("run.json", write);
  const auto flush = [&] { metrics_->flush(); };
  if (metrics_ && status == "complete") flush();
  if (metrics_ && status != "complete") try_to("metrics.jsonl", flush);
  write();
  sinks_.end(status);
}

void RunLog::write_end(const std::string& status, const std::string& failure) {
  if (rank_ != 0) return;
  const bool ended = past_.status == "complete" || past_.status == "stopped";
  const bool as_before = !metrics_ || (record_.step == first_step_ && first_step_ == past_.step);
  if (!request_.resume || !ended || !as_before || !request_.run.is_there()) return write_record(status, failure);
  record_ = past_;
  report::write_run_record(files_, request_.run.path(), record_);
  sinks_.end(record_.status);
}

void RunLog::answers(report::AnswerRecord answers) {
  constexpr size_t kKept = 24;
  if (answers.samples.size() > kKept) answers.samples.resize(kKept);
  record_.answers_right = answers.right;
  report::write_answers(files_, request_.run.path(), answers);
}

bool RunLog::write_report() {
  if (rank_ != 0 || !metrics_) return false;
  const double begun = base::real_clock().seconds();
  if (record_.status == "running") {
    record_.updated = base::utc_text(base::real_clock().unix_seconds());
    record_.seconds = seconds();
  }
  try {
    train::write_report(files_, request_.run, request_.config, request_.settings, record_);
  } catch (const std::exception& error) {  // of a full disk, or of old metrics; the run itself is whole
    base::log_warn(format("no report could be written: {}", error.what()));
    return false;
  }
  const double end = base::real_clock().seconds();
  next_report_ = end + kReportRest * (end - begun);
  return true;
}

}  // namespace hyperion::train
