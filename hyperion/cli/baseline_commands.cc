// Kept results of benches, and later ones held against them.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/printable.h"
#include "hyperion/bench/outcome.h"
#include "hyperion/cli/commands.h"
#include "hyperion/command/baseline.h"
#include "hyperion/command/named_results.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/usage.h"

namespace hyperion::cli {
namespace {

using base::format;

struct BaselineOptions {
  std::string name, result, folder, threshold = "5%";
  bool replace = false, judge_once = false, json = false;
};

base::Json side_json(const bench::Figures& figures, const std::string& file) {
  return {{"file", file},
          {"device", figures.device},
          {"machine", figures.machine},
          {"tree", figures.tree},
          {"time", figures.time}};
}

std::string check_json(const Baseline& kept, const bench::Figures& now, const std::string& file,
                       const bench::Comparison& found, double threshold) {
  base::Json list = base::Json::array();
  const auto value = [](const bench::Figure& figure) {
    return figure.value ? base::Json(*figure.value) : base::Json(nullptr);
  };
  for (const auto& figure : found.figures) {
    const auto& named = figure.verdict == bench::Verdict::only_after ? figure.after : figure.before;
    const bool both = figure.ratio > 0;
    list.push_back({{"name", named.name},
                    {"unit", named.unit},
                    {"baseline", value(figure.before)},
                    {"now", value(figure.after)},
                    {"change", both ? base::Json(figure.ratio - 1) : base::Json(nullptr)},
                    {"noise", both && figure.noise_known ? base::Json(figure.noise) : base::Json(nullptr)},
                    {"verdict", bench::verdict_text(figure.verdict, "the baseline", "this result")}});
  }
  auto baseline = side_json(kept.figures, kept.file.string());
  baseline["name"] = kept.name;
  return base::Json{{"bench", kept.figures.bench},
                    {"baseline", baseline},
                    {"result", side_json(now, file)},
                    {"threshold", threshold},
                    {"regressions", found.regressions()},
                    {"figures", list},
                    {"notes", found.notes}}
             .dump(2, ' ', false, base::Json::error_handler_t::replace) +
         "\n";
}

int baseline_save(const BaselineOptions& options) {
  const auto file = keep_baseline(baselines_folder(options.folder), options.name, options.result, options.replace);
  std::printf("baseline: %s\n", file.c_str());
  return 0;
}

int baseline_check(const BaselineOptions& options) {
  const double threshold = bench::part_of(options.threshold);
  const auto kept = open_baseline(baselines_folder(options.folder), options.name);
  const auto path = result_path(options.result);
  const auto now = bench::open_figures(path);
  const auto found = check_against(kept, now, path, threshold, options.judge_once);
  if (options.json) {
    std::printf("%s", check_json(kept, now, path, found, threshold).c_str());
    return found.regressions() > 0 ? 1 : 0;
  }
  auto rows = regression_table(found);
  for (auto& row : rows)
    for (auto& cell : row) cell = base::printable_line(cell);
  std::printf("baseline %s: bench %s %s\n%s: %s\n\n%s", kept.name.c_str(),
              base::printable_line(kept.figures.bench).c_str(),
              base::printable_line(measured_text(kept.figures)).c_str(), base::printable_line(path).c_str(),
              base::printable_line(measured_text(now)).c_str(), bench::aligned(rows, {0, 1, 6}).c_str());
  for (const auto& note : found.notes) std::printf("note: %s\n", base::printable_line(note).c_str());
  std::printf("\n%s\n", regression_sentence(found, threshold).c_str());
  return found.regressions() > 0 ? 1 : 0;
}

int baseline_list(const BaselineOptions& options) {
  const auto folder = baselines_folder(options.folder);
  std::vector<std::vector<std::string>> rows = {{"name", "bench", "figures", "measured"}};
  base::Json list = base::Json::array();
  for (const auto& name : baseline_names(folder)) {
    try {
      const auto kept = open_baseline(folder, name);
      auto json = side_json(kept.figures, kept.file.string());
      json["name"] = name, json["bench"] = kept.figures.bench, json["figures"] = kept.figures.list.size();
      list.push_back(std::move(json));
      rows.push_back({name, kept.figures.bench, format("{}", kept.figures.list.size()), measured_text(kept.figures)});
    } catch (const base::Error& error) {
      list.push_back({{"name", name}, {"error", error.what()}});
      rows.push_back({name, "", "", error.what()});
    }
  }
  if (options.json) {
    std::printf("%s\n", list.dump(2, ' ', false, base::Json::error_handler_t::replace).c_str());
    return 0;
  }
  if (rows.size() == 1) {
    std::printf("no baselines in %s\n", folder.c_str());
    return 0;
  }
  for (auto& row : rows)
    for (auto& cell : row) cell = base::printable_line(cell);
  std::printf("%s", bench::aligned(rows, {0, 1, 3}).c_str());
  return 0;
}

void add_name(CLI::App* command, BaselineOptions& options) {
  command->add_option("NAME", options.name, "of the baseline")->required();
  command
      ->add_option("RESULT", options.result,
                   "a JSON file that a bench wrote, its folder, or that folder's name among the runs")
      ->required();
}

void add_place(CLI::App* command, BaselineOptions& options) {
  command->add_option("--folder", options.folder, "where baselines lie (default: baselines, among the runs)")
      ->check(not_empty());
}

}  // namespace

void add_baseline_commands(Commands& bench) {
  auto baseline =
      bench.group("baseline", "keep a bench's result under a name, and hold later ones against it",
                  "\nExamples:\n  hyperion bench baseline save main runs/bench-train-20261119-200000\n  hyperion bench "
                  "baseline check main runs/bench-train-20261120-090000 --threshold 3%");
  baseline.add<BaselineOptions>(
      "save", "keep the figures of a result, with its machine, settings and tree",
      [](CLI::App* save, BaselineOptions& options) {
        add_name(save, options);
        save->add_flag("--replace", options.replace, "also where there is a baseline of that name, which is lost");
        add_place(save, options);
        save->footer("\nExample:\n  hyperion bench baseline save main runs/bench-train-20261119-200000");
      },
      baseline_save);
  baseline.add<BaselineOptions>(
      "check", "what became worse since a baseline; exits 1 where something did",
      [](CLI::App* check, BaselineOptions& options) {
        add_name(check, options);
        check->add_option("--threshold", options.threshold, "how much worse is a regression (default 5%)");
        check->add_flag("--judge-once", options.judge_once,
                        "also judge figures that were timed once, as if they had no noise");
        check->add_flag("--json", options.json, "as JSON");
        add_place(check, options);
        check->footer(
            "\nA regression is worse by more than the threshold and by more than the noise, or a case that fails now. "
            "Results "
            "of another\nbench, device, machine or of other settings are refused (exit code 2).\n\nExample:\n  "
            "hyperion bench "
            "baseline check main runs/bench-train-20261120-090000 --threshold 3%");
      },
      baseline_check);
  baseline.add<BaselineOptions>(
      "ls", "the baselines that are kept",
      [](CLI::App* list, BaselineOptions& options) {
        list->add_flag("--json", options.json, "as JSON");
        add_place(list, options);
        list->footer("\nExample:\n  hyperion bench baseline ls");
      },
      baseline_list);
}

}  // namespace hyperion::cli
