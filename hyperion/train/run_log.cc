#include "hyperion/train/run_log.h"

#include <algorithm>
#include <cstdio>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/checkpoint/step_folder.h"
#include "hyperion/report/step_line.h"
#include "hyperion/train/processes.h"

namespace hyperion::train {

using base::format;

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
  std::string text = format("validation loss {:.4f}", record.loss);
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
      rank_(request.processes != nullptr ? request.processes->rank() : 0),
      started_(base::real_clock().seconds()) {
  record_ = request.resume ? past_record(files_, request.run.path()) : report::RunRecord{};
  if (!request.resume) record_.created = base::utc_text(base::real_clock().unix_seconds());
  if (record_.recipe.empty()) record_.recipe = request.recipe;
  seconds_before_ = record_.seconds;
  record_.name = request.run.name();
  record_.steps = request.config.train.steps;
  record_.parameters = shape.parameters;
  record_.environment = environment_facts(device);
  write_record("running");
}

void RunLog::begin(int64_t step_done, double seconds_before) {
  first_step_ = record_.step = step_done;
  seconds_before_ = seconds_before;
  started_ = base::real_clock().seconds();
  // After the last step comes a validation, also where a run was killed in the middle of it or just after.
  const bool validates_again = step_done >= record_.steps;
  metrics_ = std::make_unique<report::MetricsWriter>(files_, request_.run.path(), rank_, step_done,
                                                     validates_again ? step_done : INT64_MAX);
}

void RunLog::step(const report::StepRecord& record) {
  metrics_->write(record);
  record_.loss = record.loss;
  record_.step = record.step;
  if (rank_ != 0) return;
  const int64_t steps = record_.steps, done = std::max<int64_t>(1, record.step - first_step_);
  const double eta =
      static_cast<double>(steps - record.step) * (base::real_clock().seconds() - started_) / static_cast<double>(done);
  const std::string line = report::step_line(record, steps, eta, shape_.context > 0 ? "tok/s" : "img/s");
  if (progress_.live()) return progress_.show(line);
  if (record.step % request_.config.train.log_every != 0 && record.step != first_step_ + 1 && record.step != steps)
    return;
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void RunLog::evaluation(const report::EvalRecord& record) {
  metrics_->write(record);
  record_.validation_loss = record.loss;
  record_.perplexity = record.perplexity;
  record_.token_accuracy = record.token_accuracy;
  record_.top_1 = record.top_1;
  record_.top_5 = record.top_5;
  base::log_info(format("step {}  {}", record.step, evaluation_text(record)));
}

double RunLog::seconds() const { return seconds_before_ + base::real_clock().seconds() - started_; }

void RunLog::write_record(const std::string& status, const std::string& failure) {
  if (rank_ != 0) return;
  record_.status = status;
  record_.failure = failure;
  record_.updated = base::utc_text(base::real_clock().unix_seconds());
  record_.seconds = seconds();
  report::write_run_record(files_, request_.run.path(), record_);
}

void RunLog::write_report(const std::vector<report::Sample>& samples) {
  const RunConfig& config = request_.config;
  report::RunPage page;
  page.title = record_.name;
  page.lead = format("{}, {} layers of width {}, trained on {} in {}.",
                     config.model.from.empty() ? config.model.preset : config.model.from, shape_.layers, shape_.width,
                     config.data.path.empty() ? config.data.source : config.data.path.front(), config.train.precision);
  page.metrics = report::read_metrics(files_.read(request_.run.metrics()), request_.run.metrics().string());
  if (!page.metrics.evaluations.empty()) page.metrics.evaluations.back().answers_right = record_.answers_right;
  page.unit = shape_.context > 0 ? "token" : "image";
  page.total_steps = config.train.steps;
  page.parameters = record_.parameters;
  page.seconds = record_.seconds;
  page.samples.assign(samples.begin(), samples.begin() + std::min<ptrdiff_t>(std::ssize(samples), 24));
  page.config = report::config_rows(request_.settings);
  page.environment = record_.environment;
  for (const auto& entry : checkpoint::list_checkpoints(files_, request_.run.checkpoints()))
    page.checkpoints.push_back({entry.step, entry.path.string(), entry.bytes, ""});
  base::write_atomically(files_, request_.run.report(), report::run_page(page));
}

}  // namespace hyperion::train
