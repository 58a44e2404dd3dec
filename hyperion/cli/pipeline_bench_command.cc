// `bench pipeline`: a schedule carried out by the ranks of a job, with work of a known length in place of a model.
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/words.h"
#include "hyperion/bench/outcome.h"
#include "hyperion/cli/commands.h"
#include "hyperion/cli/launch_commands.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/result_folder.h"
#include "hyperion/command/usage.h"
#include "hyperion/doctor/comm_job.h"
#include "hyperion/parallel/pipeline_trial.h"
#include "hyperion/parallel/pipeline_wires.h"
#include "hyperion/report/plan_picture.h"
#include "hyperion/report/stage_times.h"
#include "hyperion/strategy/plan_check.h"
#include "hyperion/strategy/stage_work.h"

namespace hyperion::cli {
namespace {

using base::ConfigError;
using base::format;
using strategy::Does;

struct PipelineFlags {
  std::string folder, message = "1MiB", work = "sleep";
  std::vector<std::string> schedules = {"gpipe", "1f1b", "interleaved"};
  int64_t micro_batches = 8, chunks = 2, repeats = 3;
  double forward_ms = 20, timeout = 60;
  bool json = false;
  host::RankFlags rank;
};

// A model of equal stages, whose hidden states are as large as asked.
strategy::Plan equal_stages(const PipelineFlags& flags, strategy::PipelineSchedule schedule, int64_t ranks) {
  const int64_t chunks =
      schedule == strategy::PipelineSchedule::interleaved ? flags.chunks : strategy::usual_chunks(schedule);
  strategy::PlannedModel model{.blocks = ranks * chunks,
                               .width = std::max<int64_t>(1, doctor::message_size(flags.message) / 4)};
  model.costs.blocks.assign(static_cast<size_t>(model.blocks), 1);
  const auto plan = strategy::make_plan(
      model, {.layout = {.pp = ranks}, .schedule = schedule, .chunks = chunks, .micro_batches = flags.micro_batches});
  strategy::check(plan);
  return plan;
}

struct Trial {
  strategy::Plan plan;
  strategy::PlanWalk ran;  // the middle one of the repeats, by its bubble
  double bubble, least, most;
};

Trial run_schedule(doctor::CommJob& job, const PipelineFlags& flags, strategy::PipelineSchedule schedule) {
  Trial trial{.plan = equal_stages(flags, schedule, job.ranks()), .ran = {}, .bubble = 0, .least = 1, .most = 0};
  const strategy::Mesh mesh(trial.plan.layout, job.world->rank());
  const parallel::PipelineWires wires(*job.world, mesh, schedule, trial.plan.pipeline.chunks);
  const double forward = flags.forward_ms / 1000 / static_cast<double>(trial.plan.pipeline.chunks);
  const parallel::TrialWork work{forward, 2 * forward, flags.work == "compute"};
  std::vector<strategy::PlanWalk> walks;
  for (int64_t repeat = 0; repeat < flags.repeats; ++repeat)
    walks.push_back(report::read_walk(
        trial.plan, job.told_by_all(report::to_json(parallel::run_trial(
                        trial.plan.ranks[static_cast<size_t>(mesh.rank())], work, wires.links(), *job.control)))));
  std::sort(walks.begin(), walks.end(),
            [&](const auto& a, const auto& b) { return a.bubble(trial.plan) < b.bubble(trial.plan); });
  trial.ran = walks[walks.size() / 2];
  trial.bubble = trial.ran.bubble(trial.plan);
  trial.least = walks.front().bubble(trial.plan), trial.most = walks.back().bubble(trial.plan);
  return trial;
}

strategy::PlanWalk planned(const PipelineFlags& flags, const strategy::Plan& plan) {
  const double forward = flags.forward_ms / 1000 / static_cast<double>(plan.pipeline.chunks);
  return strategy::walk(plan, [&](int, const strategy::Instruction& instruction) {
    return instruction.does == Does::backward ? 2 * forward : computes(instruction.does) ? forward : 0;
  });
}

std::string percent(double part) { return format("{:.1f}%", 100 * part); }

bench::Outcome outcome_of(const std::string& job, const PipelineFlags& flags, const std::vector<Trial>& trials) {
  bench::Outcome outcome;
  outcome.name = "pipeline";
  std::vector<std::vector<std::string>> rows = {
      {"schedule", "stages", "micro-batches", "bubble", "of repeats", "planned", "theory", "step ms", "planned ms"}};
  base::Json json = {{"job", job},
                     {"forward_ms", flags.forward_ms},
                     {"message", flags.message},
                     {"work", flags.work},
                     {"rows", base::Json::array()}};
  for (const auto& trial : trials) {
    const auto& pipeline = trial.plan.pipeline;
    const auto plan = planned(flags, trial.plan);
    const std::string name = base::word_of(pipeline.schedule);
    rows.push_back({name, format("{}", pipeline.stages()), format("{}", pipeline.micro_batches), percent(trial.bubble),
                    format("{} to {}", percent(trial.least), percent(trial.most)), percent(plan.bubble(trial.plan)),
                    percent(strategy::bubble_of(pipeline)), format("{:.1f}", 1000 * trial.ran.end),
                    format("{:.1f}", 1000 * plan.end)});
    json["rows"].push_back({{"schedule", name},
                            {"stages", pipeline.stages()},
                            {"micro_batches", pipeline.micro_batches},
                            {"bubble", trial.bubble},
                            {"bubble_least", trial.least},
                            {"bubble_most", trial.most},
                            {"bubble_planned", plan.bubble(trial.plan)},
                            {"bubble_theory", strategy::bubble_of(pipeline)},
                            {"step_ms", 1000 * trial.ran.end},
                            {"planned_ms", 1000 * plan.end}});
    outcome.pictures.push_back(
        {format("{}_planned.svg", name),
         report::plan_svg(format("{} as planned: bubble {}", name, percent(plan.bubble(trial.plan))), trial.plan,
                          plan)});
    outcome.pictures.push_back(
        {format("{}_ran.svg", name),
         report::plan_svg(format("{} as it ran: bubble {}", name, percent(trial.bubble)), trial.plan, trial.ran)});
  }
  outcome.table = job + "\n" + bench::aligned(rows);
  outcome.json = json.dump(2) + "\n";
  outcome.csv = bench::csv_text(rows);
  return outcome;
}

int pipeline_bench_command(const PipelineFlags& flags) {
  at::set_num_threads(1);  // each rank has a stage, and the machine's cores are all ranks'
  doctor::CommJob job("cpu", flags.timeout);
  if (job.ranks() == 1)
    throw ConfigError("a pipeline has a process for each of its stages, and there is one",
                      "hyperion launch -n 4 -- bench pipeline");
  std::vector<Trial> trials;
  for (const auto& word : flags.schedules)
    trials.push_back(run_schedule(job, flags, base::from_word<strategy::PipelineSchedule>(word).value()));
  if (job.first()) {
    const auto outcome = outcome_of(job.text(), flags, trials);
    const ResultFolder folder("bench-pipeline", flags.folder);
    bench::write_outcome(outcome, folder.path());
    std::fputs((flags.json ? outcome.json : outcome.table + "\nfiles: " + folder.path().string() + "\n").c_str(),
               stdout);
    std::fflush(stdout);
  }
  job.told_by_all("");
  return 0;
}

void add_pipeline_flags(CLI::App* command, PipelineFlags& flags) {
  command
      ->add_option("--schedule", flags.schedules,
                   "with commas between them, also zb-h1, zbv and dualpipev (default gpipe,1f1b,interleaved)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_word_of<strategy::PipelineSchedule>());
  command->add_option("--micro-batches", flags.micro_batches, "of a step (default 8)")->check(whole_number(1, 4096));
  command->add_option("--chunks", flags.chunks, "stages of a process, of interleaved (default 2)")
      ->check(whole_number(1, 64));
  command
      ->add_option(
          "--forward-ms", flags.forward_ms,
          "of all stages of a process; a backward takes twice as long, each half of a divided one as long (default 20)")
      ->check(number(0.1, 1e5));
  command->add_option("--message", flags.message, "hidden states that pass from stage to stage (default 1MiB)");
  command
      ->add_option("--work", flags.work, "sleep; or compute: products on one thread, for ranks that have a core each")
      ->check(one_of({"sleep", "compute"}));
  command->add_option("--repeats", flags.repeats, "the middle one counts (default 3)")->check(whole_number(1, 1000));
  command->add_option("--timeout", flags.timeout, "seconds after which a rank that others wait for is given up (60)")
      ->check(number(0.1, 1e6));
  command->add_option("--folder", flags.folder, "where the files go (default: its name and time, among the runs)");
  command->add_flag("--json", flags.json, "as JSON");
  add_rank_flags(command, flags.rank);
  command->footer(
      "\nEach rank is a process of the pipeline, over host memory. The bubble is the part of the step in which ranks "
      "compute nothing; pictures of each schedule, as planned and as it ran, are among the files.\n\nExamples:\n  "
      "hyperion launch -n 4 -- bench pipeline\n  hyperion launch -n 2 -- bench pipeline --work compute --schedule 1f1b "
      "--micro-batches 16");
}

}  // namespace

void add_pipeline_bench(Commands& bench) {
  bench.add<PipelineFlags>("pipeline",
                           "schedules of stages over the ranks of a job: bubbles as planned and as they ran",
                           add_pipeline_flags, pipeline_bench_command);
}

}  // namespace hyperion::cli
