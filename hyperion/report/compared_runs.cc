#include "hyperion/report/compared_runs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/report/run_plots.h"

namespace hyperion::report {
namespace {

using base::format;
using base::Json;

enum class Change { none, by, times };  // how a second run differs: not told, as a difference, in percent

// One thing that is known of a run.
struct ComparedFigure {
  std::string name, key;  // for people, and in JSON
  std::optional<double> (*value)(const ComparedRun&);
  std::string (*text)(double);
  Change change = Change::none;
};

std::string loss_text(double value) { return std::isfinite(value) ? format("{:.4f}", value) : "not finite"; }
std::string share_of_all(double value) { return format("{:.1f}%", 100 * value); }
std::string whole_text(double value) { return base::with_commas(std::llround(value)); }
std::string bytes_of(double value) { return base::bytes_text(static_cast<uint64_t>(value)); }

template <class Value>
double middle_of(const std::vector<StepRecord>& steps, Value value) {
  std::vector<double> all;
  for (const auto& step : steps)
    if (std::isfinite(value(step))) all.push_back(value(step));
  if (all.empty()) return 0;
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

std::vector<EvalRecord> validations_of(const ComparedRun& run) {
  std::vector<EvalRecord> list;
  for (const auto& record : run.metrics.evaluations)
    if (record.split != "training") list.push_back(record);
  return list;
}

std::optional<EvalRecord> best_validation(const ComparedRun& run) {
  std::optional<EvalRecord> best;
  for (const auto& record : validations_of(run))
    if (std::isfinite(record.loss) && (!best || record.loss < best->loss)) best = record;
  return best;
}

template <auto Member>
std::optional<double> of_last(const ComparedRun& run) {
  const auto all = validations_of(run);
  return all.empty() ? std::nullopt : std::optional<double>(all.back().*Member);
}

std::vector<ComparedFigure> figures_for(const std::string& unit) {
  using Run = const ComparedRun&;
  using Known = std::optional<double>;
  return {
      {"steps", "steps", [](Run run) { return Known(run.metrics.steps.back().step); }, whole_text},
      {unit + "s seen", "seen",
       [](Run run) {
         double sum = 0;
         for (const auto& step : run.metrics.steps) sum += static_cast<double>(step.tokens);
         return Known(sum);
       },
       whole_text},
      {"parameters trained", "trained", [](Run run) { return Known(run.record.trained); }, whole_text},
      {"training loss, last", "training_loss", [](Run run) { return Known(run.metrics.steps.back().loss); }, loss_text,
       Change::by},
      {"validation loss, last", "validation_loss", of_last<&EvalRecord::loss>, loss_text, Change::by},
      {"validation loss, best", "best_validation_loss",
       [](Run run) {
         const auto best = best_validation(run);
         return best ? Known(best->loss) : Known();
       },
       loss_text, Change::by},
      {"  at step", "best_step",
       [](Run run) {
         const auto best = best_validation(run);
         return best ? Known(best->step) : Known();
       },
       whole_text},
      {"perplexity, last", "perplexity", of_last<&EvalRecord::perplexity>, loss_text, Change::by},
      {"token accuracy, last", "token_accuracy", of_last<&EvalRecord::token_accuracy>, share_of_all},
      {"top 1, last", "top_1", of_last<&EvalRecord::top_1>, share_of_all},
      {"answers right", "answers_right", [](Run run) { return run.record.answers_right; }, share_of_all},
      {unit + "s a second, median", "per_second",
       [](Run run) { return Known(middle_of(run.metrics.steps, [](const StepRecord& r) { return r.tokens_per_s; })); },
       whole_text, Change::times},
      {"step, median of ms", "step_ms",
       [](Run run) { return Known(middle_of(run.metrics.steps, [](const StepRecord& r) { return r.step_ms; })); },
       [](double value) { return format("{:.2f}", value); }, Change::times},
      {"memory, peak", "memory_peak",
       [](Run run) {
         Known most;
         for (const auto& step : run.metrics.steps)
           if (step.memory_peak) most = std::max(most.value_or(0), static_cast<double>(*step.memory_peak));
         return most;
       },
       bytes_of, Change::times},
      {"training time", "seconds", [](Run run) { return Known(run.record.seconds); },
       [](double value) { return base::duration_text(value); }, Change::times},
  };
}

std::string unit_of(const ComparedRuns& runs) {
  const bool same = std::all_of(runs.begin(), runs.end(), [&](const auto& run) { return run.unit == runs[0].unit; });
  return same ? runs[0].unit : "unit";  // tokens of one, images of another
}

std::string change_text(Change change, std::optional<double> before, std::optional<double> after) {
  if (change == Change::none || !before || !after || !std::isfinite(*before) || !std::isfinite(*after)) return "";
  if (change == Change::by) return format("{:+.4f}", *after - *before);
  return *before > 0 ? format("{:+.1f}%", 100 * (*after / *before - 1)) : "";
}

// As far as the shortest run came: there all can be held against each other.
int64_t shared_steps(const ComparedRuns& runs) {
  int64_t last = runs[0].metrics.steps.back().step;
  for (const auto& run : runs) last = std::min(last, run.metrics.steps.back().step);
  return std::max<int64_t>(last, 1);
}

// Of many validations the last of each run, and evenly spread ones of the others.
void keep_rows(std::map<int64_t, std::vector<std::string>>& by_step, size_t most) {
  std::set<int64_t> last;
  for (size_t run = 0; !by_step.empty() && run < by_step.begin()->second.size(); ++run)
    for (auto row = by_step.rbegin(); row != by_step.rend(); ++row)
      if (!row->second[run].empty()) {
        last.insert(row->first);
        break;
      }
  const size_t others = by_step.size() - last.size(), wanted = most > last.size() ? most - last.size() : 0;
  if (others <= wanted) return;
  size_t place = 0;
  std::erase_if(by_step, [&](const auto& entry) {
    if (last.contains(entry.first)) return false;
    const size_t row = place++;
    return (row + 1) * wanted / others == row * wanted / others;
  });
}

std::vector<std::string> heading_of(const char* first, const ComparedRuns& runs) {
  std::vector<std::string> heading = {first};
  for (const auto& run : runs) heading.push_back(run.name);
  return heading;
}

}  // namespace

TextTable differing_settings(const ComparedRuns& runs) {
  TextTable rows = {heading_of("setting", runs)};
  for (size_t i = 0; i < runs[0].settings.size(); ++i) {
    std::vector<std::string> row = {runs[0].settings[i].first};
    for (const auto& run : runs) row.push_back(run.settings[i].second);
    if (std::any_of(row.begin() + 2, row.end(), [&](const auto& value) { return value != row[1]; }))
      rows.push_back(std::move(row));
  }
  return rows;
}

TextTable compared_figures(const ComparedRuns& runs) {
  TextTable rows = {heading_of("figure", runs)};
  const bool two = runs.size() == 2;
  rows.push_back({"status"});
  for (const auto& run : runs) rows.back().push_back(run.record.status);
  if (two) rows[0].emplace_back("difference"), rows[1].emplace_back();
  for (const auto& figure : figures_for(unit_of(runs))) {
    std::vector<std::optional<double>> values;
    for (const auto& run : runs) values.push_back(figure.value(run));
    if (std::none_of(values.begin(), values.end(), [](const auto& value) { return value.has_value(); })) continue;
    rows.push_back({figure.name});
    for (const auto& value : values) rows.back().push_back(value ? figure.text(*value) : "-");
    if (two) rows.back().push_back(change_text(figure.change, values[0], values[1]));
  }
  return rows;
}

TextTable compared_training(const ComparedRuns& runs) {
  constexpr int64_t kRows = 8;
  const int64_t last = shared_steps(runs);
  TextTable rows = {heading_of("step", runs)};
  for (int64_t row = 1, before = 0; row <= kRows; ++row) {
    const int64_t mark = (row * last + kRows - 1) / kRows;
    if (mark == before) continue;
    rows.push_back({base::with_commas(mark)});
    for (const auto& run : runs) {
      double sum = 0;
      int64_t count = 0;
      for (const auto& step : run.metrics.steps)
        if (step.step > before && step.step <= mark) sum += step.loss, ++count;
      rows.back().push_back(count > 0 ? loss_text(sum / static_cast<double>(count)) : "");
    }
    before = mark;
  }
  return rows;
}

TextTable compared_validations(const ComparedRuns& runs) {
  constexpr size_t kRows = 8;
  std::map<int64_t, std::vector<std::string>> by_step;
  for (size_t i = 0; i < runs.size(); ++i)
    for (const auto& record : validations_of(runs[i])) {
      auto& row = by_step[record.step];
      row.resize(runs.size());
      row[i] = loss_text(record.loss);
    }
  keep_rows(by_step, kRows);
  TextTable rows = {heading_of("step", runs)};
  for (const auto& [step, losses] : by_step) {
    rows.push_back({base::with_commas(step)});
    rows.back().insert(rows.back().end(), losses.begin(), losses.end());
  }
  return rows;
}

std::string compared_json(const ComparedRuns& runs) {
  Json list = Json::array(), settings = Json::array();
  for (const auto& run : runs) {
    Json one = {{"name", run.name}, {"folder", run.record.folder.string()}, {"status", run.record.status}};
    for (const auto& figure : figures_for(run.unit)) {
      const auto value = figure.value(run);
      const bool whole = figure.text == whole_text || figure.text == bytes_of;
      one[figure.key] = !value || !std::isfinite(*value) ? Json() : whole ? Json(std::llround(*value)) : Json(*value);
    }
    list.push_back(std::move(one));
  }
  const auto rows = differing_settings(runs);
  for (size_t i = 1; i < rows.size(); ++i)
    settings.push_back({{"name", rows[i][0]}, {"values", std::vector(rows[i].begin() + 1, rows[i].end())}});
  return Json{{"runs", list}, {"settings", settings}}.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

namespace {

// What they were computed on and with, where that is not the same.
TextTable differing_environment(const ComparedRuns& runs) {
  TextTable rows = {heading_of("fact", runs)};
  for (const auto& own : runs[0].record.environment) {
    std::vector<std::string> row = {own.first, own.second};
    for (size_t i = 1; i < runs.size(); ++i) {
      const auto& facts = runs[i].record.environment;
      const auto found =
          std::find_if(facts.begin(), facts.end(), [&](const auto& fact) { return fact.first == own.first; });
      row.push_back(found == facts.end() ? "" : found->second);
    }
    if (std::any_of(row.begin() + 2, row.end(), [&](const auto& value) { return value != row[1]; }))
      rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

std::vector<DocumentSection> compared_sections(const ComparedRuns& runs) {
  std::vector<NamedMetrics> curves;
  for (const auto& run : runs) curves.push_back({run.name, &run.metrics});
  std::vector<DocumentSection> sections;
  sections.push_back({.heading = "Curves", .plots = compared_plots(curves, unit_of(runs))});
  sections.push_back({.heading = "Figures", .rows = compared_figures(runs)});
  if (runs.size() < 2) return sections;
  const auto settings = differing_settings(runs);
  sections.push_back({.heading = "Settings that differ", .rows = settings});
  if (settings.size() < 2) sections.back().sentences = {"None: all settings are the same."};
  if (const auto environment = differing_environment(runs); environment.size() > 1)
    sections.push_back({.heading = "Environment, where it differs", .rows = environment});
  return sections;
}

std::string compared_page(const ComparedRuns& runs) {
  Document page;
  page.lead = format("{} training runs over each other.", runs.size());
  page.sections = compared_sections(runs);
  for (const auto& run : runs) page.title += (page.title.empty() ? "" : ", ") + run.name;
  return document_page(page);
}

}  // namespace hyperion::report
