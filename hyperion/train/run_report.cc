#include "hyperion/train/run_report.h"

#include "hyperion/base/format.h"
#include "hyperion/base/read_file.h"
#include "hyperion/base/words.h"
#include "hyperion/checkpoint/step_folder.h"
#include "hyperion/hub/cache.h"
#include "hyperion/models/registry.h"
#include "hyperion/report/page.h"

namespace hyperion::train {
namespace {

using base::format;

// Where things lie on one machine tells a reader elsewhere nothing.
std::string last_name(const std::string& path) {
  const base::Path named(path), folder = named.has_filename() ? named : named.parent_path();
  if (const std::string name = hub::repo_name_of(folder); !name.empty()) return name;
  if (folder.parent_path().filename() != "checkpoints") return folder.filename().string();
  return format("{} {}", folder.parent_path().parent_path().filename().string(), folder.filename().string());
}

std::string lead_of(const RunConfig& config, const strategy::ModelShape& shape, const report::RunRecord& record) {
  const std::string model = config.model.from.empty() ? config.model.preset : last_name(config.model.from),
                    data =
                        config.data.path.empty() ? base::word_of(config.data.source) : last_name(config.data.path[0]);
  std::string lead = format("{}, {} layers of width {}, trained on {} in {}.", model, shape.layers, shape.width, data,
                            base::word_of(config.train.precision));
  if (config.lora.rank > 0)
    lead += format(" LoRA of rank {}, alpha {:g}, beside {}: {}.", config.lora.rank, config.lora.alpha,
                   config.lora.targets, report::parameters_text(record.parameters, record.trained));
  if (!record.data.empty()) lead += format(" {}.", record.data);
  return lead;
}

std::string state_of(const report::RunRecord& record, const report::Metrics& metrics, bool killed) {
  const std::string at = format("step {} of {}", metrics.steps.empty() ? 0 : metrics.steps.back().step, record.steps);
  const std::string go_on = format("hyperion resume {} goes on with it", record.name);
  if (killed) return format("It ended without a word after {}: killed, or its machine stopped; {}.", at, go_on);
  const std::string unsaved =
      record.failed_save.empty() ? "" : format(" Its last checkpoint was not written: {}.", record.failed_save);
  if (record.status == "running") return format("It is being trained: {} on {}.{}", at, record.updated, unsaved);
  if (record.status == "stopped") return format("It was stopped after {}; {}.", at, go_on);
  if (record.status == "failed") return format("It failed after {}: {}.", at, record.failure);
  if (!record.ended.empty()) return format("It ended early, after {}: {}.", at, record.ended);
  return {};
}

}  // namespace

void write_report(base::FileSystem& files, const RunFolder& run, const RunConfig& config,
                  const base::Settings& settings, const report::RunRecord& record, bool killed) {
  const auto shape =
      models::config_shape(base::read_description(files, run.model()), run.model().string(), config.train.length);
  report::RunPage page;
  page.title = record.name;
  page.lead = lead_of(config, shape, record);
  if (files.exists(run.metrics()))
    page.metrics =
        report::read_metrics(base::read_at_most(files, run.metrics(), report::kLongestMetrics), run.metrics().string());
  page.state = state_of(record, page.metrics, killed);
  const auto answers = report::read_answers(files, run.path());
  auto& evaluations = page.metrics.evaluations;
  if (answers && !evaluations.empty() && evaluations.back().step == answers->step) {
    evaluations.back().answers_right = answers->right;
    page.samples = answers->samples;
  }
  if (auto predictions = report::read_predictions(files, run.path());
      predictions && !evaluations.empty() && predictions->step <= evaluations.back().step)
    page.predictions = std::move(predictions);
  if (files.exists(run.pipeline())) page.pipeline = base::read_description(files, run.pipeline());
  page.unit = shape.context > 0 ? "token" : "image";
  page.total_steps = record.steps;
  page.parameters = record.parameters;
  if (record.trained != record.parameters) page.parameters_note = base::with_commas(record.trained) + " trained beside";
  page.seconds = record.seconds;
  page.config = report::config_rows(settings);
  page.environment = record.environment;
  if (record.failed_saves > 0)
    page.environment.emplace_back(
        "failed saves",
        format("{}{}{}", record.failed_saves, record.failed_save.empty() ? "" : "; the last: ", record.failed_save));
  for (const auto& entry : checkpoint::list_checkpoints(files, run.checkpoints()))
    page.checkpoints.push_back({entry.step, entry.path.lexically_relative(run.path()).string(), entry.bytes,
                                entry.step == record.best_step ? "best" : ""});
  base::write_atomically(files, run.report(), report::run_page(page));
}

}  // namespace hyperion::train
