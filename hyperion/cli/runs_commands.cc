#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/printable.h"
#include "hyperion/cli/commands.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/run_tail.h"
#include "hyperion/command/usage.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/report/run_record.h"
#include "hyperion/train/run_folder.h"

namespace hyperion::cli {
namespace {

using base::format;

struct RunsOptions {
  std::string run, name;          // of one; its new name
  std::vector<std::string> runs;  // of several
  int64_t lines = 10;             // of tail
  bool json = false, follow = false, yes = false;
};

// What the table and the text of a run take as it is: run.json may come from anyone.
report::RunRecord as_shown(report::RunRecord record) {
  for (std::string* text : {&record.status, &record.created, &record.updated}) *text = base::printable_line(*text);
  for (auto& [name, value] : record.environment) name = base::printable_line(name), value = base::printable_line(value);
  return record;
}

int list_runs(bool json) {
  auto records = report::list_runs(base::real_files(), interop::runs_folder());
  for (auto& record : records) record.status = train::RunFolder::status(record);
  if (!json) {
    for (auto& record : records) record = as_shown(std::move(record));
    std::printf("%s", base::printable(report::runs_table(records)).c_str());
    return 0;
  }
  std::printf("[");
  for (size_t i = 0; i < records.size(); ++i)
    std::printf("%s%s", i == 0 ? "\n" : ",\n", report::to_json(records[i]).c_str());
  std::printf("]\n");
  return 0;
}

int show_run(const std::string& run, bool json) {
  auto& files = base::real_files();
  const base::Path folder = interop::find_run(files, run);
  if (!files.exists(folder / "run.json"))
    throw base::ConfigError(
        format("{} has no run.json: it was killed before it wrote one, or it was removed", folder.string()),
        format("hyperion resume {} goes on with it, and writes one", folder.filename().string()));
  auto record = report::read_run_record(files, folder);
  record.status = train::RunFolder::status(record);
  const std::string text = json ? report::to_json(record) : base::printable(report::run_text(as_shown(record)));
  std::printf("%s", text.c_str());
  return 0;
}

bool agreed(const std::string& question) {
  if (!base::is_terminal(STDIN_FILENO))
    throw base::ConfigError("`runs rm` asks before it removes, and there is nobody to ask", "add --yes");
  std::fprintf(stderr, "%s [y/N] ", question.c_str());
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

// All are found and locked before the first one goes, so that a name that is wrong removes nothing.
int remove_runs(const RunsOptions& options) {
  auto& files = base::real_files();
  std::vector<train::RunFolder> runs;
  std::string names;
  for (const auto& name : options.runs) {
    const base::Path path = interop::find_run(files, name);
    const auto same = [&](const auto& run) { return std::filesystem::equivalent(run.path(), path); };
    if (std::any_of(runs.begin(), runs.end(), same)) continue;
    runs.push_back(train::RunFolder::open(files, path));
    names += (names.empty() ? "" : ", ") + runs.back().path().string();
  }
  if (!options.yes && !agreed(format("remove {} with all checkpoints?", names))) {
    std::printf("nothing was removed\n");
    return 1;
  }
  for (auto& run : runs) {
    const auto kept = run.remove(files);
    std::printf("removed %s\n", (kept.empty() ? run.path().string() : "run " + run.name()).c_str());
    if (!kept.empty()) base::log_warn(format("{} stays, for what is not the run's: {}", run.path().string(), kept));
  }
  return 0;
}

int rename_run(const std::string& from, const std::string& to) {
  auto& files = base::real_files();
  auto run = train::RunFolder::open(files, interop::find_run(files, from));
  run.rename(files, to);
  std::printf("renamed to %s\n", run.path().c_str());
  if (!files.exists(run.report())) return 0;
  try {
    write_run_page(run, /*in_use=*/false);
  } catch (const base::Error& error) {
    base::log_warn(format("{} has still the old name: {}", run.report().string(), error.what()));
  }
  return 0;
}

}  // namespace

void add_runs_commands(Commands& commands) {
  auto runs = commands.group(
      "runs", "look at runs, and tidy them",
      "\nExamples:\n  hyperion runs ls\n  hyperion runs tail quickstart -f\n  hyperion runs rm quickstart");
  runs.add<RunsOptions>(
      "ls", "all runs, newest first",
      [](CLI::App* list, RunsOptions& options) {
        list->add_flag("--json", options.json, "as JSON");
        list->footer("\nExample:\n  hyperion runs ls");
      },
      [](const RunsOptions& options) { return list_runs(options.json); });
  runs.add<RunsOptions>(
      "show", "one run in full",
      [](CLI::App* show, RunsOptions& options) {
        show->add_option("RUN", options.run, "the run's name or folder")->required();
        show->add_flag("--json", options.json, "as JSON");
        show->footer("\nExample:\n  hyperion runs show quickstart");
      },
      [](const RunsOptions& options) { return show_run(options.run, options.json); });
  runs.add<RunsOptions>(
      "tail", "the last steps and validations of a run, trained now or before",
      [](CLI::App* tail, RunsOptions& options) {
        tail->add_option("RUN", options.run, "the run's name or folder")->required();
        tail->add_option("-n,--lines", options.lines, "how many (default 10)")->check(whole_number(0, 1'000'000));
        tail->add_flag("-f,--follow", options.follow, "go on with what comes, until the run ends or Ctrl-C");
        tail->add_flag("--json", options.json, "as the lines of metrics.jsonl");
        tail->footer("\nExamples:\n  hyperion runs tail quickstart\n  hyperion runs tail quickstart -f");
      },
      [](const RunsOptions& options) {
        return tail_run(options.run, {options.lines, options.follow, options.json});
      });
  add_runs_export(runs);
  runs.add<RunsOptions>(
      "rm", "remove runs with all their checkpoints; asks first",
      [](CLI::App* remove, RunsOptions& options) {
        remove->add_option("RUN", options.runs, "their names or folders")->required();
        remove->add_flag("-y,--yes", options.yes, "without asking");
        remove->footer("\nRefuses a run that is being trained.\n\nExample:\n  hyperion runs rm first second --yes");
      },
      remove_runs);
  runs.add<RunsOptions>(
      "rename", "give a run another name",
      [](CLI::App* rename, RunsOptions& options) {
        rename->add_option("RUN", options.run, "the run's name or folder")->required();
        rename->add_option("NAME", options.name, "its new name")->required();
        rename->footer(
            "\nRefuses a run that is being trained, and a name that is taken.\n\nExample:\n  hyperion runs rename "
            "quickstart-20261116-181000 baseline");
      },
      [](const RunsOptions& options) { return rename_run(options.run, options.name); });
}

}  // namespace hyperion::cli
