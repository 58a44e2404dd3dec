#include "hyperion/command/baseline.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/read_file.h"
#include "hyperion/command/named_results.h"
#include "hyperion/interop/find_run.h"

namespace hyperion::cli {
namespace {

using base::ConfigError;
using base::format;

base::Path baseline_file(const base::Path& folder, const std::string& name) {
  const auto fits = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  };
  if (name.empty() || name[0] == '.' || name[0] == '-' || name.size() > 128 ||
      !std::all_of(name.begin(), name.end(), fits))
    throw ConfigError(format("\"{}\" is no name for a baseline", name),
                      "use letters, digits, '-', '_' and '.', a letter or digit first: main, release-0.1");
  return folder / (name + ".json");
}

std::string shown_settings(const bench::Figures& figures) {
  return figures.settings.empty() ? "the workloads' own settings" : bench::joined_settings(figures.settings);
}

// What of the two makes their figures speak of different things, one a line.
std::vector<std::string> differences(const bench::Figures& kept, const bench::Figures& now) {
  std::vector<std::string> lines;
  const auto differ = [&](const std::string& what, const std::string& before, const std::string& after) {
    if (before != after) lines.push_back(format("{}: {} in the baseline, {} now", what, before, after));
  };
  differ("bench", kept.bench, now.bench);
  differ("device", kept.device, now.device);
  differ("settings", shown_settings(kept), shown_settings(now));
  for (const char* fact : {"cpu", "cores"}) {
    const auto before = kept.machine.find(fact), after = now.machine.find(fact);
    if (before != kept.machine.end() && after != now.machine.end()) differ(fact, before->second, after->second);
  }
  return lines;
}

bool shares_a_figure(const bench::Figures& kept, const bench::Figures& now) {
  return std::any_of(kept.list.begin(), kept.list.end(), [&](const auto& figure) {
    return std::any_of(now.list.begin(), now.list.end(), [&](const auto& other) { return other.name == figure.name; });
  });
}

std::string figure_cell(const bench::Figure& figure) {
  return figure.value ? format("{:.4g}", *figure.value) : "failed";
}

}  // namespace

base::Path baselines_folder(const std::string& given) {
  return given.empty() ? interop::runs_folder() / "baselines" : base::Path(given);
}

base::Path keep_baseline(const base::Path& folder, const std::string& name, const std::string& result, bool replace) {
  auto& files = base::real_files();
  const auto file = baseline_file(folder, name);
  if (files.exists(file) && !replace)
    throw ConfigError(format("there is a baseline {} already: {}", name, file.string()),
                      "add --replace to lose it, or take another name");
  const auto path = result_path(result);
  const auto figures = bench::open_figures(path);
  if (std::none_of(figures.list.begin(), figures.list.end(), [](const auto& figure) { return figure.value; }))
    throw ConfigError(
        format("{} has no figure to keep: {}", path, figures.list.empty() ? "it lists none" : "all failed"),
        "measure again, or name another result");
  auto json = bench::figures_json(figures);
  json["kept"] = base::utc_text(base::real_clock().unix_seconds());
  json["from"] = std::filesystem::absolute(path).string();
  files.create_folders(folder);
  base::write_atomically(files, file, json.dump(2, ' ', false, base::Json::error_handler_t::replace) + "\n");
  return file;
}

std::vector<std::string> baseline_names(const base::Path& folder) {
  std::vector<std::string> names;
  for (const auto& file : base::real_files().list(folder))
    if (file.extension() == ".json") names.push_back(file.stem().string());
  return names;
}

Baseline open_baseline(const base::Path& folder, const std::string& name) {
  auto& files = base::real_files();
  const auto file = baseline_file(folder, name);
  if (!files.exists(file)) {
    const auto names = baseline_names(folder);
    const auto near = base::nearest(name, names.data(), names.data() + names.size());
    throw ConfigError(format("there is no baseline {} in {}", name, folder.string()),
                      !near.empty()    ? format("did you mean {}?", near)
                      : !names.empty() ? format("there are {}", bench::joined_settings(names))
                                       : format("keep one: hyperion bench baseline save {} RESULT", name));
  }
  return {name, file, bench::open_figures(file.string())};
}

bench::Comparison check_against(const Baseline& baseline, const bench::Figures& now, const std::string& result,
                                double threshold, bool judge_once) {
  auto lines = differences(baseline.figures, now);
  if (lines.empty() && !shares_a_figure(baseline.figures, now))
    lines.emplace_back("they have no figure in common: other workloads");
  if (!lines.empty()) {
    std::string all;
    for (const auto& line : lines) all += "\n  " + line;
    throw ConfigError(format("{} cannot be held against the baseline {}:{}", result, baseline.name, all),
                      "measure the same on the same machine, or keep a baseline of this one under another name");
  }
  auto comparison = bench::compare(baseline.figures, now, threshold, judge_once);
  const auto driver = [](const bench::Figures& figures) {
    const auto found = figures.machine.find("driver");
    return found == figures.machine.end() ? std::string() : found->second;
  };
  if (driver(baseline.figures) != driver(now))
    comparison.notes.push_back(format("another GPU driver: {} before, {} now", driver(baseline.figures), driver(now)));
  for (const auto& [figures, side] : {std::pair{&baseline.figures, "the baseline"}, {&now, "this result"}})
    if (figures->machine.empty())
      comparison.notes.push_back(format("{} does not say on which machine it was measured, but for its device", side));
  return comparison;
}

report::TextTable regression_table(const bench::Comparison& comparison) {
  report::TextTable rows = {{"figure", "unit", "baseline", "now", "change", "noise", "verdict"}};
  for (const auto& figure : comparison.figures) {
    const bool first = figure.verdict != bench::Verdict::only_after,
               second = figure.verdict != bench::Verdict::only_before;
    const auto& named = first ? figure.before : figure.after;
    const bool both = figure.ratio > 0;
    rows.push_back({named.name, named.unit, first ? figure_cell(figure.before) : "",
                    second ? figure_cell(figure.after) : "", both ? format("{:+.1f}%", 100 * (figure.ratio - 1)) : "",
                    !both                ? ""
                    : figure.noise_known ? format("{:.1f}%", 100 * figure.noise)
                                         : "unknown",
                    bench::verdict_text(figure.verdict, "the baseline", "this result")});
  }
  return rows;
}

std::string regression_sentence(const bench::Comparison& comparison, double threshold) {
  const auto regressions = comparison.regressions();
  const auto unknown = std::count_if(comparison.figures.begin(), comparison.figures.end(),
                                     [](const auto& figure) { return figure.verdict == bench::Verdict::unknown; });
  return (regressions == 0 ? format("no figure is worse by more than {:.3g}% and its noise", 100 * threshold)
                           : format("{} of {} figures worse by more than {:.3g}% and their noise", regressions,
                                    comparison.figures.size(), 100 * threshold)) +
         (unknown == 0 ? "" : format("; {} not judged", unknown));
}

std::string measured_text(const bench::Figures& figures) {
  return format("on {}{}{}", figures.device, figures.tree.empty() ? "" : " by " + figures.tree,
                figures.time.empty() ? "" : ", " + figures.time);
}

}  // namespace hyperion::cli
