#include "hyperion/cli/comm_commands.h"

#include <algorithm>
#include <cstdio>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/bench/comm.h"
#include "hyperion/bench/scaling.h"
#include "hyperion/cli/launch_commands.h"
#include "hyperion/cli/result_folder.h"
#include "hyperion/cli/usage.h"
#include "hyperion/interop/open_model.h"

namespace hyperion::cli {
namespace {

using base::format;

struct CommFlags {
  std::vector<std::string> sizes;
  std::string device = "auto", folder, least = "8", most = "64MiB";
  double timeout = 60;
  bool no_pairs = false, json = false;
  doctor::CommCheckOptions check;
  bench::CommBenchOptions bench;
  bench::ScalingOptions scaling;
};

CommFlags& comm_flags() {
  static CommFlags all;
  return all;
}

ResultFolder comm_folder(const char* name) { return {name, comm_flags().folder}; }

// Rank 0 shows the outcome and keeps its files; the others wait until it has, so that no end of theirs is in its way.
void show_comm(doctor::CommJob& job, const bench::Outcome& outcome, const char* name) {
  if (job.first()) {
    const auto folder = comm_folder(name);
    bench::write_outcome(outcome, folder.path());
    std::fputs((comm_flags().json ? outcome.json : outcome.table + "\nfiles: " + folder.path().string() + "\n").c_str(),
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

int comm_check_command() {
  auto options = comm_flags().check;
  if (!comm_flags().sizes.empty()) options.sizes.clear();
  for (const auto& size : comm_flags().sizes) options.sizes.push_back(doctor::message_size(size));
  options.pairs = !comm_flags().no_pairs;
  doctor::CommJob job(comm_flags().device, comm_flags().timeout);
  const auto result = doctor::run_comm_check(job, options);
  show_comm(job, bench::comm_check_outcome(result), "comm-check");
  if (!result.faults.empty()) refuse("comm-check", result.faults);
  return 0;
}

int comm_bench_command() {
  auto options = comm_flags().bench;
  options.least = doctor::message_size(comm_flags().least), options.most = doctor::message_size(comm_flags().most);
  if (options.least > options.most)
    throw base::ConfigError(format("--min {} is more than --max {}", comm_flags().least, comm_flags().most),
                            "turn them round");
  doctor::CommJob job(comm_flags().device, comm_flags().timeout);
  const auto result = bench::run_comm_bench(job, options);
  show_comm(job, bench::comm_outcome(result), "bench-comm");
  if (result.wrong()) refuse("bench comm", doctor::wrong_texts(result.rows, result.ranks));
  return 0;
}

int scaling_command() {
  auto options = comm_flags().scaling;
  options.device = comm_flags().device;
  const auto folder = comm_folder("bench-scaling");
  options.folder = folder.path();
  const auto result = bench::run_scaling_bench(options);
  const auto outcome = bench::scaling_outcome(result);
  bench::write_outcome(outcome, options.folder);
  std::printf(
      "%s", (comm_flags().json ? outcome.json : outcome.table + "\nfiles: " + options.folder.string() + "\n").c_str());
  const bool all = std::all_of(result.rows.begin(), result.rows.end(), [](auto& row) { return row.failed.empty(); });
  return all ? 0 : 1;
}

void add_scaling_command(CLI::App& bench) {
  auto& options = comm_flags().scaling;
  auto* scaling = bench.add_subcommand("scaling", "one recipe on several numbers of ranks, in several modes");
  scaling->add_option("RECIPE", options.recipe, "a TOML file (default: a GPT-2 of 12 small layers on made text)");
  scaling->add_option("--ranks", options.ranks, "with commas between them (default 1,2,4)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(whole_number(1, 4096));
  scaling->add_option("--modes", options.modes, "of ddp,zero1,zero2,zero3,zeropp (default ddp,zero2,zero3)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_of(bench::scaling_modes()));
  scaling
      ->add_option(
          "--batch", options.batches,
          "samples a rank, several with commas between them (default: the recipe's batch, shared by all ranks)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(whole_number(1, 1 << 20));
  scaling->add_option("--steps", options.steps, "of each job; the first quarter does not count (default 16)")
      ->check(whole_number(3, 1'000'000));
  scaling->add_option("--threads", options.threads, "a rank (default: the cores, shared by the most ranks)")
      ->check(whole_number(1, 4096));
  scaling->add_option("--set", options.settings, "another setting: --set parallel.prefetch=2; may be given again");
  scaling->add_option("--device", comm_flags().device, "cpu, cuda or auto")->check(one_of({"auto", "cpu", "cuda"}));
  scaling->add_option("--folder", comm_flags().folder,
                      "where runs, logs and results go (default: its name and time, among the runs)");
  scaling->add_flag("--json", comm_flags().json, "as JSON");
  scaling->footer(
      "\nEach job is started with `hyperion launch`; HYPERION_SLOW_LINK makes its links slower.\n\nExamples:\n"
      "  hyperion bench scaling --ranks 1,2,4 --modes ddp,zero2,zero3\n"
      "  hyperion bench scaling recipes/quickstart.toml --ranks 4 --modes ddp,zero3 --batch 8,32");
}

void add_job_flags(CLI::App* command, host::RankFlags& rank) {
  command->add_option("--device", comm_flags().device, "cpu, cuda or auto")->check(one_of({"auto", "cpu", "cuda"}));
  command
      ->add_option("--timeout", comm_flags().timeout,
                   "seconds after which a rank that others wait for is given up (60)")
      ->check(number(0.1, 1e6));
  command->add_option("--folder", comm_flags().folder,
                      "where the files go (default: its name and time, among the runs)");
  command->add_flag("--json", comm_flags().json, "as JSON");
  add_rank_flags(command, rank);
}

}  // namespace

void add_comm_commands(CLI::App& app, CLI::App& bench, host::RankFlags& rank) {
  auto* check = app.add_subcommand("comm-check", "verify and time what the ranks of a job send each other");
  check->add_option("--sizes", comm_flags().sizes, "of messages (default 1KiB,64KiB,1MiB,16MiB)")
      ->delimiter(',')
      ->allow_extra_args(false);
  check->add_option("--seconds", comm_flags().check.seconds, "for each collective and size (default 0.05)")
      ->check(number(0.001, 3600));
  check
      ->add_option("--tolerance", comm_flags().check.tolerance,
                   "times slower than the usual link is a fault (default 3)")
      ->check(number(1.1, 1e6));
  check->add_flag("--no-pairs", comm_flags().no_pairs, "only all ranks together, not each with each");
  add_job_flags(check, rank);
  check->footer(
      "\nExits with 3 when a result was wrong or a link is slow, and names it.\n\nExamples:\n  hyperion launch -n 4 -- "
      "comm-check\n  srun -N 2 -n 8 hyperion comm-check --sizes 1MiB,256MiB\n  hyperion comm-check");

  add_scaling_command(bench);
  auto* comm =
      bench.add_subcommand("comm", "each collective over all ranks: time, algorithm and bus bandwidth by size");
  comm->add_option("--only", comm_flags().bench.only, "collectives, with commas between them (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_of(doctor::collective_names()));
  comm->add_option("--min", comm_flags().least, "smallest size (default 8)");
  comm->add_option("--max", comm_flags().most, "largest size (default 64MiB)");
  comm->add_option("--factor", comm_flags().bench.factor, "from one size to the next (default 4)")
      ->check(whole_number(2, 1024));
  comm->add_option("--seconds", comm_flags().bench.seconds, "for each case (default 0.3)")->check(number(0.001, 3600));
  add_job_flags(comm, rank);
  comm->footer(
      "\nSizes, algbw and busbw are counted as nccl-tests counts them; the time is that of the slowest rank.\n\n"
      "Examples:\n  hyperion launch -n 4 -- bench comm\n  hyperion launch -n 8 -- bench comm --only all_reduce --min "
      "1KiB "
      "--max 1GiB --factor 2");
}

std::optional<int> run_comm_command(CLI::App& app) {
  if (app.got_subcommand("comm-check")) return comm_check_command();
  if (!app.got_subcommand("bench")) return {};
  if (app.get_subcommand("bench")->got_subcommand("comm")) return comm_bench_command();
  if (app.get_subcommand("bench")->got_subcommand("scaling")) return scaling_command();
  return {};
}

}  // namespace hyperion::cli
