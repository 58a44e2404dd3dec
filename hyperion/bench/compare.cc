#include "hyperion/bench/compare.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/files.h"
#include "hyperion/base/format.h"
#include "hyperion/base/read_file.h"
#include "hyperion/bench/outcome.h"

namespace hyperion::bench {
namespace {

using base::format;

const Figure* find(const std::vector<Figure>& list, const std::string& name) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const Figure& figure) { return figure.name == name; });
  return found == list.end() ? nullptr : &*found;
}

double relative_spread(const Figure& figure) {
  return *figure.value == 0 ? 0 : std::abs(figure.high - figure.low) / 2 / std::abs(*figure.value);
}

ComparedFigure judge(const Figure& before, const Figure& after, double fail_over, bool judge_once) {
  ComparedFigure out{before, after};
  if (!before.value || !after.value) {
    if (before.value) out.verdict = Verdict::regression;
    if (after.value) out.verdict = Verdict::better;
    return out;
  }
  out.noise_known = !before.timed_once && !after.timed_once;
  out.noise = std::hypot(relative_spread(before), relative_spread(after));
  const bool equal = *after.value == *before.value, zero = *before.value == 0 || *after.value == 0;
  out.ratio = equal ? 1 : zero ? 0 : *after.value / *before.value;
  if (equal) return out;
  if (!out.noise_known && !judge_once) {
    out.verdict = Verdict::unknown;
    return out;
  }
  if (zero) {
    out.verdict = (*after.value > *before.value) == after.lower_is_better ? Verdict::regression : Verdict::better;
    return out;
  }
  out.worse = after.lower_is_better ? out.ratio - 1 : 1 / out.ratio - 1;
  if (std::abs(out.worse) <= out.noise) return out;
  out.verdict = out.worse > fail_over ? Verdict::regression : out.worse > 0 ? Verdict::worse : Verdict::better;
  return out;
}

std::string ratio_text(double ratio) {
  return ratio < 1e-3 || ratio > 1e4 ? format("{:.2e}", ratio) : format("{:.3f}", ratio);
}

std::string settings_text(const Figures& figures) {
  return figures.settings.empty() ? "the workloads' own settings" : joined_settings(figures.settings);
}

std::string shown(const Figure& figure) { return figure.value ? format("{:.4g}", *figure.value) : "failed"; }

}  // namespace

std::string verdict_text(Verdict verdict, const std::string& before, const std::string& after) {
  switch (verdict) {
    case Verdict::same:
      return "same";
    case Verdict::better:
      return "better";
    case Verdict::worse:
      return "worse";
    case Verdict::regression:
      return "REGRESSION";
    case Verdict::unknown:
      return "unknown";
    case Verdict::only_before:
      return "only in " + before;
    case Verdict::only_after:
      return "only in " + after;
  }
  return "";
}

int64_t Comparison::regressions() const {
  return std::count_if(figures.begin(), figures.end(),
                       [](const ComparedFigure& figure) { return figure.verdict == Verdict::regression; });
}

Comparison compare(const Figures& before, const Figures& after, double fail_over, bool judge_once) {
  if (before.bench != after.bench)
    throw base::ConfigError(
        format("A is a result of `bench {}`, B of `bench {}`: they cannot be compared", before.bench, after.bench),
        "name two results of the same bench");
  Comparison out;
  if (before.device != after.device) out.notes.push_back(format("A ran on {}, B on {}", before.device, after.device));
  if (before.settings != after.settings)
    out.notes.push_back(format("A was measured with {}, B with {}", settings_text(before), settings_text(after)));
  int64_t shared = 0, once = 0;
  for (const auto& figure : before.list) {
    const auto* other = find(after.list, figure.name);
    if (other != nullptr && other->unit != figure.unit)
      throw base::ConfigError(format("\"{}\" is in {} in A and in {} in B", figure.name, figure.unit, other->unit),
                              "measure both with the same version");
    if (other != nullptr && other->lower_is_better != figure.lower_is_better)
      throw base::ConfigError(format("of \"{}\" less is better in one file, more in the other", figure.name),
                              "measure both with the same version");
    shared += other != nullptr;
    out.figures.push_back(other != nullptr ? judge(figure, *other, fail_over, judge_once)
                                           : ComparedFigure{figure, {}, 0, 0, 0, true, Verdict::only_before});
    once += !out.figures.back().noise_known;
  }
  for (const auto& figure : after.list)
    if (find(before.list, figure.name) == nullptr)
      out.figures.push_back({{}, figure, 0, 0, 0, true, Verdict::only_after});
  if (shared == 0)
    throw base::ConfigError("A and B have no figure in common", "measure the same workloads, modes and shapes in both");
  if (once > 0)
    out.notes.push_back(format("{} figure{} timed once: {} (measure for longer{})", once, once == 1 ? " was" : "s were",
                               judge_once ? "taken to have no noise" : "what changed may be noise, and is not judged",
                               judge_once ? "" : ", or say --judge-once"));
  return out;
}

std::string comparison_table(const Comparison& comparison, double fail_over) {
  std::vector<std::vector<std::string>> rows = {{"figure", "unit", "A", "B", "B/A", "noise", "verdict"}};
  for (const auto& figure : comparison.figures) {
    const bool first = figure.verdict != Verdict::only_after, second = figure.verdict != Verdict::only_before;
    const Figure& named = first ? figure.before : figure.after;
    const bool both = figure.ratio > 0;
    rows.push_back({named.name, named.unit, first ? shown(figure.before) : "", second ? shown(figure.after) : "",
                    both ? ratio_text(figure.ratio) : "",
                    !both                ? ""
                    : figure.noise_known ? format("{:.1f}%", 100 * figure.noise)
                                         : "unknown",
                    verdict_text(figure.verdict)});
  }
  std::string text = aligned(rows, {0, 1, 6});
  for (const auto& note : comparison.notes) text += "note: " + note + "\n";
  const int64_t regressions = comparison.regressions();
  text += regressions == 0 ? format("\nno figure is worse by more than {:.3g}% and its noise\n", 100 * fail_over)
                           : format("\n{} of {} figures worse by more than {:.3g}% and their noise\n", regressions,
                                    comparison.figures.size(), 100 * fail_over);
  return text;
}

std::string comparison_json(const Comparison& comparison, double fail_over) {
  base::Json list = base::Json::array();
  const auto value = [](const Figure& figure) {
    return figure.value ? base::Json(*figure.value) : base::Json(nullptr);
  };
  for (const auto& figure : comparison.figures) {
    const Figure& named = figure.verdict == Verdict::only_after ? figure.after : figure.before;
    list.push_back({{"name", named.name},
                    {"unit", named.unit},
                    {"a", value(figure.before)},
                    {"b", value(figure.after)},
                    {"ratio", figure.ratio > 0 ? base::Json(figure.ratio) : base::Json(nullptr)},
                    {"noise", figure.noise_known ? base::Json(figure.noise) : base::Json(nullptr)},
                    {"verdict", verdict_text(figure.verdict)}});
  }
  return base::Json{{"fail_over", fail_over},
                    {"regressions", comparison.regressions()},
                    {"figures", list},
                    {"notes", comparison.notes}}
             .dump(2) +
         "\n";
}

double part_of(const std::string& percent) {
  double value = 0;
  const char* end = percent.data() + percent.size();
  const auto [rest, error] = std::from_chars(percent.data(), end, value);
  const std::string unit(rest, end);
  if (error != std::errc() || !(value >= 0 && value <= 1000) || (!unit.empty() && unit != "%" && unit != " %"))
    throw base::ConfigError(format("\"{}\" is no percentage", percent), "write 3% or 0.5%");
  return value / 100;
}

Figures open_figures(const std::string& path) try {
  auto& files = base::real_files();
  base::Path file = path;
  if (std::error_code error; std::filesystem::is_directory(file, error)) {
    std::vector<base::Path> results;
    for (const auto& entry : files.list(file))
      if (entry.extension() == ".json") results.push_back(entry.is_absolute() ? entry : file / entry.filename());
    if (results.size() != 1)
      throw base::ConfigError(format("{} holds {} JSON files, not one", path, results.size()),
                              "name the result file itself");
    file = results[0];
  }
  return read_figures(base::read_description(files, file), file.string());
} catch (const base::ConfigError&) {
  throw;
} catch (const base::Error& error) {  // a file that cannot be read is no regression
  throw base::ConfigError(
      error.what(), error.hint().empty()
                        ? "name a JSON file that `hyperion bench` wrote, or the folder it lies in; or training runs"
                        : error.hint());
}

}  // namespace hyperion::bench
