#include <algorithm>
#include <cstdio>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/bench/comm.h"
#include "hyperion/bench/layouts.h"
#include "hyperion/bench/scaling.h"
#include "hyperion/cli/commands.h"
#include "hyperion/cli/launch_commands.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/result_folder.h"
#include "hyperion/command/usage.h"
#include "hyperion/interop/find_run.h"
#include "hyperion/interop/open_model.h"

namespace hyperion::cli {
namespace {

using base::format;

struct CommFlags {
  std::vector<std::string> sizes, from;
  std::string device = "auto", folder, least = "8", most = "64MiB";
  double timeout = 60;
  bool no_pairs = false, json = false;
  doctor::CommCheckOptions check;
  bench::CommBenchOptions bench;
  bench::ScalingOptions scaling;
  host::RankFlags rank;
};

ResultFolder comm_folder(const CommFlags& flags, const char* name) { return {name, flags.folder}; }

// Rank 0 shows the outcome and keeps its files; the others wait until it has, so that no end of theirs is in its way.
void show_comm(const CommFlags& flags, doctor::CommJob& job, const bench::Outcome& outcome, const char* name) {
  if (job.first()) {
    const auto folder = comm_folder(flags, name);
    bench::write_outcome(outcome, folder.path());
    std::fputs((flags.json ? outcome.json : outcome.table + "\nfiles: " + folder.path().string() + "\n").c_str(),
               stdout);
    std::fflush(stdout);
  }
  job.told_by_all("");
}

// Every rank ends with it.
[[noreturn]] void refuse(const std::string& what, const std::vector<std::string>& faults) {
  std::string more = faults.size() > 1 ? format(" (and {} more)", faults.size() - 1) : "";
  throw base::PreflightError(format("{} found {}{}", what, faults.front(), more),
                             "mend or leave out what is named before the job starts; the table has all of it");
}

int comm_check_command(const CommFlags& flags) {
  auto options = flags.check;
  if (!flags.sizes.empty()) options.sizes.clear();
  for (const auto& size : flags.sizes) options.sizes.push_back(doctor::message_size(size));
  options.pairs = !flags.no_pairs;
  doctor::CommJob job(flags.device, flags.timeout);
  const auto result = doctor::run_comm_check(job, options);
  show_comm(flags, job, bench::comm_check_outcome(result), "comm-check");
  if (!result.faults.empty()) refuse("comm-check", result.faults);
  return 0;
}

int comm_bench_command(const CommFlags& flags) {
  auto options = flags.bench;
  options.least = doctor::message_size(flags.least), options.most = doctor::message_size(flags.most);
  if (options.least > options.most)
    throw base::ConfigError(format("--min {} is more than --max {}", flags.least, flags.most), "turn them round");
  doctor::CommJob job(flags.device, flags.timeout);
  const auto result = bench::run_comm_bench(job, options);
  show_comm(flags, job, bench::comm_outcome(result), "bench-comm");
  if (result.wrong()) refuse("bench comm", doctor::wrong_texts(result.rows, result.ranks));
  return 0;
}

// What is given twice, or has no meaning beside something else.
void check_scaling_flags(const CommFlags& flags) {
  const auto& options = flags.scaling;
  const bool counts = !options.ranks.empty() || !options.modes.empty();
  const char* which = options.ranks.empty() ? "--modes" : "--ranks";
  if (!options.layouts.empty() && counts)
    throw base::ConfigError(format("--layouts and {} are both given", which),
                            "a layout says how many processes there are, and zero=0..3 in it the mode: leave out "
                            "--ranks and --modes");
  if (options.layouts.empty() && flags.from.empty() && !options.optimize.empty())
    throw base::ConfigError("--optimize is for --layouts", "write --layouts dp=4 in place of --ranks 4");
  if (flags.from.empty()) return;
  const char* beside = !options.layouts.empty()    ? "--layouts"
                       : counts                    ? which
                       : !options.optimize.empty() ? "--optimize"
                       : !options.batches.empty()  ? "--batch"
                       : !options.settings.empty() ? "--set"
                       : !options.recipe.empty()   ? "RECIPE"
                                                   : nullptr;
  if (beside != nullptr)
    throw base::ConfigError(format("--from shows runs that are there and trains nothing, and {} is given too", beside),
                            "leave one of them out");
}

int show_scaling(const CommFlags& flags, const base::Path& folder, const bench::Outcome& outcome, bool complete) {
  bench::write_outcome(outcome, folder);
  std::printf("%s", (flags.json ? outcome.json : outcome.table + "\nfiles: " + folder.string() + "\n").c_str());
  return complete ? 0 : 1;
}

int scaling_command(const CommFlags& flags) {
  check_scaling_flags(flags);
  auto options = flags.scaling;
  options.device = flags.device;
  auto& files = base::real_files();
  std::vector<base::Path> runs;
  for (const auto& run : flags.from) runs.push_back(interop::find_run(files, run));
  if (!options.layouts.empty()) bench::parse_layouts(options.layouts);  // refused before there is a folder
  const auto folder = comm_folder(flags, "bench-scaling");
  options.folder = folder.path();
  const auto complete = [](const auto& rows, auto why) {
    return std::all_of(rows.begin(), rows.end(), [&](const auto& row) { return why(row).empty(); });
  };
  if (!options.layouts.empty() || !runs.empty()) {
    const auto result = runs.empty() ? bench::run_layouts_bench(options) : bench::read_layout_runs(files, runs);
    return show_scaling(flags, options.folder, bench::layouts_outcome(result),
                        complete(result.rows, [](const auto& row) { return row.figures.failed; }));
  }
  const auto result = bench::run_scaling_bench(options);
  return show_scaling(flags, options.folder, bench::scaling_outcome(result),
                      complete(result.rows, [](const auto& row) { return row.failed; }));
}

void add_scaling_flags(CLI::App* scaling, CommFlags& flags) {
  auto& options = flags.scaling;
  scaling->add_option("RECIPE", options.recipe, "a TOML file (default: a GPT-2 of 12 small layers on made text)");
  scaling->add_option("--ranks", options.ranks, "with commas between them (default 1,2,4)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(whole_number(1, 4096));
  scaling->add_option("--modes", options.modes, "of ddp,zero1,zero2,zero3,zeropp (default ddp,zero2,zero3)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_of(bench::scaling_modes()));
  scaling->add_option(
      "--layouts", options.layouts,
      "in place of both, with ; between them: axes as of --parallel, and any of zero=0..3, batch=N, sp, "
      "recompute=none|selective|full, schedule=1f1b|gpipe|interleaved|zb-h1|zbv|dualpipev, chunks=N, accumulate=N");
  scaling->add_option("--optimize", options.optimize, "each layout in each of reference,fused,graph,max")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_of({"reference", "fused", "graph", "max"}));
  scaling->add_option("--from", flags.from, "the tables of layouts from runs that are there: names or folders");
  scaling
      ->add_option(
          "--batch", options.batches,
          "samples a rank, several with commas between them (default: the recipe's batch, shared by all ranks); of "
          "layouts, a data-parallel rank")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(whole_number(1, 1 << 20));
  scaling->add_option("--steps", options.steps, "of each job; the first quarter does not count (default 16)")
      ->check(whole_number(3, 1'000'000));
  scaling->add_option("--threads", options.threads, "a rank (default: the cores, shared by the most ranks)")
      ->check(whole_number(1, 4096));
  scaling->add_option("--set", options.settings, "another setting: --set parallel.prefetch=2; may be given again");
  scaling->add_option("--device", flags.device, "cpu, cuda or auto")->check(one_of({"auto", "cpu", "cuda"}));
  scaling->add_option("--folder", flags.folder,
                      "where runs, logs and results go (default: its name and time, among the runs)");
  scaling->add_flag("--json", flags.json, "as JSON");
  scaling->footer(
      "\nEach job is started with `hyperion launch`; HYPERION_SLOW_LINK makes its links slower.\n\nExamples:\n"
      "  hyperion bench scaling --ranks 1,2,4 --modes ddp,zero2,zero3\n"
      "  hyperion bench scaling recipes/quickstart.toml --ranks 4 --modes ddp,zero3 --batch 8,32\n"
      "  hyperion bench scaling --layouts \"dp=4;dp=4,zero=3;dp=2,pp=2,zero=1,accumulate=4\" --batch 8\n"
      "  hyperion bench scaling --from mine other runs/third");
}

void add_job_flags(CLI::App* command, CommFlags& flags) {
  command->add_option("--device", flags.device, "cpu, cuda or auto")->check(one_of({"auto", "cpu", "cuda"}));
  command->add_option("--timeout", flags.timeout, "seconds after which a rank that others wait for is given up (60)")
      ->check(number(0.1, 1e6));
  command->add_option("--folder", flags.folder, "where the files go (default: its name and time, among the runs)");
  command->add_flag("--json", flags.json, "as JSON");
  add_rank_flags(command, flags.rank);
}

void add_check_flags(CLI::App* check, CommFlags& flags) {
  check->add_option("--sizes", flags.sizes, "of messages (default 1KiB,64KiB,1MiB,16MiB)")
      ->delimiter(',')
      ->allow_extra_args(false);
  check->add_option("--seconds", flags.check.seconds, "for each collective and size (default 0.05)")
      ->check(number(0.001, 3600));
  check->add_option("--tolerance", flags.check.tolerance, "times slower than the usual link is a fault (default 3)")
      ->check(number(1.1, 1e6));
  check->add_flag("--no-pairs", flags.no_pairs, "only all ranks together, not each with each");
  add_job_flags(check, flags);
  check->footer(
      "\nExits with 3 when a result was wrong or a link is slow, and names it.\n\nExamples:\n  hyperion launch -n 4 -- "
      "comm-check\n  srun -N 2 -n 8 hyperion comm-check --sizes 1MiB,256MiB\n  hyperion comm-check");
}

void add_comm_flags(CLI::App* comm, CommFlags& flags) {
  comm->add_option("--only", flags.bench.only, "collectives, with commas between them (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_of(doctor::collective_names()));
  comm->add_option("--min", flags.least, "smallest size (default 8)");
  comm->add_option("--max", flags.most, "largest size (default 64MiB)");
  comm->add_option("--factor", flags.bench.factor, "from one size to the next (default 4)")
      ->check(whole_number(2, 1024));
  comm->add_option("--seconds", flags.bench.seconds, "for each case (default 0.3)")->check(number(0.001, 3600));
  add_job_flags(comm, flags);
  comm->footer(
      "\nSizes, algbw and busbw are counted as nccl-tests counts them; the time is that of the slowest rank.\n\n"
      "Examples:\n  hyperion launch -n 4 -- bench comm\n  hyperion launch -n 8 -- bench comm --only all_reduce --min "
      "1KiB "
      "--max 1GiB --factor 2");
}

}  // namespace

void add_comm_check_command(Commands& commands) {
  commands.add<CommFlags>("comm-check", "verify and time what the ranks of a job send each other", add_check_flags,
                          comm_check_command);
}

void add_comm_benches(Commands& bench) {
  bench.add<CommFlags>("scaling", "one recipe on several numbers of ranks and in several modes, or in several layouts",
                       add_scaling_flags, scaling_command);
  bench.add<CommFlags>("comm", "each collective over all ranks: time, algorithm and bus bandwidth by size",
                       add_comm_flags, comm_bench_command);
}

}  // namespace hyperion::cli
