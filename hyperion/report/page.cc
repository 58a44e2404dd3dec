#include "hyperion/report/page.h"

#include <algorithm>
#include <cmath>

#include "hyperion/base/format.h"
#include "hyperion/report/html.h"
#include "hyperion/report/markup.h"
#include "hyperion/report/run_plots.h"

namespace hyperion::report {
namespace {

using base::format;

std::string percent(double fraction) {
  return std::isfinite(fraction) ? format("{:.1f}%", fraction * 100) : "not finite";
}

std::string figure(double value) {
  if (!std::isfinite(value)) return "not finite";
  if (value != 0 && std::abs(value) < 0.01) return format("{:.2e}", value);
  return std::abs(value) < 1000 ? format("{:.4g}", value) : base::with_commas(std::llround(value));
}

std::string count_text(int64_t count) {
  const auto value = static_cast<double>(count);
  if (count >= 1'000'000'000) return format("{:.2f} B", value / 1e9);
  if (count >= 1'000'000) return format("{:.2f} M", value / 1e6);
  return base::with_commas(count);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<Card> step_cards(const RunPage& page) {
  const std::vector<StepRecord>& steps = page.metrics.steps;
  if (steps.empty()) return {};
  std::vector<double> rates;
  int64_t tokens = 0;
  for (const StepRecord& record : steps) {
    rates.push_back(std::isfinite(record.tokens_per_s) ? record.tokens_per_s : 0);
    tokens += record.tokens;
  }
  const std::string of = page.total_steps > 0 ? "of " + base::with_commas(page.total_steps) : "";
  std::string rate = page.unit + "s a second";
  rate[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(rate[0])));
  return {{rate, base::with_commas(std::llround(median(rates))), count_text(tokens) + " " + page.unit + "s seen"},
          {"Steps", base::with_commas(steps.back().step), of}};
}

std::vector<Card> evaluation_cards(const RunPage& page) {
  const auto& all = page.metrics.evaluations;
  const auto found =
      std::find_if(all.rbegin(), all.rend(), [](const EvalRecord& one) { return one.split != "training"; });
  if (found == all.rend()) {
    if (page.metrics.steps.empty()) return {};
    return {{"Final loss", figure(page.metrics.steps.back().loss), "training, last step"}};
  }
  const EvalRecord& last = *found;
  std::vector<Card> out;
  if (last.answers_right) out.push_back({"Answers right", percent(*last.answers_right), last.split});
  out.push_back({"Final loss", figure(last.loss), last.split});
  if (last.perplexity) out.push_back({"Perplexity", figure(*last.perplexity), last.split});
  if (last.token_accuracy) out.push_back({"Token accuracy", percent(*last.token_accuracy), last.split});
  if (last.top_1) out.push_back({"Top 1", percent(*last.top_1), last.split});
  if (last.top_5) out.push_back({"Top 5", percent(*last.top_5), last.split});
  return out;
}

std::string headline(const RunPage& page) {
  std::vector<Card> all = evaluation_cards(page);
  const std::vector<Card> steps = step_cards(page);
  all.insert(all.end(), steps.begin(), steps.end());
  if (page.seconds)
    all.push_back({"Training time", base::duration_text(*page.seconds), *page.seconds < 3600 ? "min:s" : "h:min:s"});
  if (page.parameters) all.push_back({"Parameters", count_text(*page.parameters), page.parameters_note});
  return all.empty() ? "" : cards(all);
}

std::string sample_html(const Sample& sample) {
  std::string badge, expected;
  if (sample.right)
    badge = format("<span class=\"badge {0}\">{1} {0}</span>", *sample.right ? "right" : "wrong",
                   *sample.right ? "✓" : "✗");
  if (!sample.expected.empty() && !sample.right.value_or(false)) {
    expected = format("<p class=\"expected\">expected {}</p>", escaped(sample.expected));
  }
  return format(
      "<div class=\"sample\"><p class=\"question mono\">{}</p><div class=\"answer\"><p "
      "class=\"mono\">{}</p>{}</div>{}</div>\n",
      escaped(sample.question), escaped(sample.answer), badge, expected);
}

std::string samples_section(const std::vector<Sample>& samples) {
  if (samples.empty()) return {};
  std::string all;
  for (const Sample& sample : samples) all += sample_html(sample);
  return section("Questions and answers", "<div class=\"samples\">\n" + all + "</div>\n");
}

// What the model made of its prompts at the last validation, and folded away what it did before.
std::string continuations_section(const std::vector<EvalRecord>& evaluations) {
  constexpr size_t kMostEarlier = 400;
  std::vector<std::vector<std::string>> earlier;
  const EvalRecord* last = nullptr;
  for (const EvalRecord& record : evaluations) {
    if (record.samples.empty()) continue;
    for (size_t i = 0; last != nullptr && i < last->samples.size(); ++i)
      earlier.push_back({base::with_commas(last->step), last->samples[i].prompt, last->samples[i].text});
    last = &record;
  }
  if (last == nullptr) return {};
  std::string body = "<div class=\"samples\">\n";
  for (const auto& [prompt, text] : last->samples) body += sample_html({prompt, text, "", {}});
  body += "</div>\n";
  if (earlier.size() > kMostEarlier) earlier.erase(earlier.begin(), earlier.end() - kMostEarlier);
  if (!earlier.empty())
    body += format("<details>\n<summary>{} before</summary>\n{}</details>\n", earlier.size(),
                   table({"Step", "Prompt", "Continued"}, earlier));
  return section(format("Prompts continued after step {}", base::with_commas(last->step)), body);
}

std::string predictions_section(const std::optional<PredictionRecord>& record) {
  if (!record || record->pictures.empty()) return {};
  std::string body = "<div class=\"pictures\">\n";
  for (const auto& [png, predicted, truth, share] : record->pictures) {
    const bool right = predicted == truth;
    body += format(
        "<figure class=\"picture\"><img alt=\"{}\" src=\"data:image/png;base64,{}\"><figcaption><span class=\"badge "
        "{}\">{} {}</span> {}{}</figcaption></figure>\n",
        escaped(truth), png, right ? "right" : "wrong", right ? "✓" : "✗", escaped(predicted), percent(share),
        right ? "" : format("<br>it is {}", escaped(truth)));
  }
  return section(format("Validation images after step {}", base::with_commas(record->step)), body + "</div>\n");
}

std::string config_table(const std::vector<ConfigRow>& rows, bool defaults) {
  std::string body, group;
  for (const ConfigRow& row : rows) {
    if (row.is_default != defaults) continue;
    if (row.section != group)
      body += format("<tr class=\"group\"><th colspan=\"3\" scope=\"rowgroup\">{}</th></tr>\n", escaped(row.section));
    group = row.section;
    body += format("<tr{}><td>{}</td><td class=\"mono\">{}</td><td>{}</td></tr>\n",
                   defaults ? " class=\"default\"" : "", escaped(row.key), escaped(row.value), escaped(row.origin));
  }
  return "<div class=\"scroll\"><table>\n<thead><tr><th>Setting</th><th>Value</th><th>From</th></tr></thead>\n"
         "<tbody>\n" +
         body + "</tbody>\n</table></div>\n";
}

std::string config_section(const std::vector<ConfigRow>& rows) {
  const auto defaults = std::count_if(rows.begin(), rows.end(), [](const ConfigRow& row) { return row.is_default; });
  std::string body;
  if (defaults < std::ssize(rows)) body += config_table(rows, false);
  if (defaults > 0) body += folded(format("{} settings as they are by default", defaults), config_table(rows, true));
  return body.empty() ? "" : section("Settings", body);
}

std::string checkpoints_section(const std::vector<CheckpointRow>& checkpoints) {
  if (checkpoints.empty()) return {};
  std::vector<std::vector<std::string>> rows;
  for (const CheckpointRow& row : checkpoints) {
    rows.push_back({base::with_commas(row.step), row.folder, base::bytes_text(row.bytes), row.note});
  }
  return section("Checkpoints", table({"Step", "Folder", "Size", ""}, rows));
}

}  // namespace

std::vector<ConfigRow> config_rows(const base::Settings& settings) {
  std::vector<ConfigRow> rows;
  for (const base::Setting& setting : settings.all()) {
    const std::string unit = setting.unit.empty() ? "" : " " + setting.unit;
    // By its value: of a run that was resumed, every setting comes from the run's own file.
    const bool is_default = setting.text() == setting.default_text;
    rows.push_back({setting.section, setting.key, setting.text() + unit, setting.origin, is_default});
  }
  return rows;
}

std::string run_page(const RunPage& page) {
  std::string body;
  if (!page.state.empty()) body += format("<p class=\"state\">{}</p>\n", escaped(page.state));
  body += headline(page);
  if (!page.metrics.steps.empty()) body += section("Curves", plot_grid(run_plots(page.metrics, page.unit), true));
  body += samples_section(page.samples);
  body += continuations_section(page.metrics.evaluations);
  body += predictions_section(page.predictions);
  if (!page.pipeline.empty())
    body += section("Stages", format("<div class=\"scroll\">{}</div>\n", svg_image(page.pipeline, "a step by stages")));
  if (!page.environment.empty()) body += section("Environment", facts(page.environment));
  body += checkpoints_section(page.checkpoints);
  body += config_section(page.config);
  return html_page(page.title, page.lead, body);
}

}  // namespace hyperion::report
