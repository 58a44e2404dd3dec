#include "hyperion/cli/timing_commands.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/words.h"
#include "hyperion/bench/floor.h"
#include "hyperion/bench/kernels.h"
#include "hyperion/bench/ladder.h"
#include "hyperion/bench/startup.h"
#include "hyperion/bench/train.h"
#include "hyperion/bench/tune.h"
#include "hyperion/bench/workloads.h"
#include "hyperion/cli/resolve.h"
#include "hyperion/cli/result_folder.h"
#include "hyperion/cli/usage.h"
#include "hyperion/device/device.h"
#include "hyperion/device/tuning_cache.h"
#include "hyperion/interop/open_model.h"

namespace hyperion::cli {
namespace {

using base::format;

struct TimingFlags {
  bench::TrainBenchOptions train;
  bench::KernelBenchOptions kernels;
  double begun = 0;
  int64_t repeats = 3;
  std::string mode, workload, precision, folder, first;
  std::vector<std::string> settings, rungs = {"reference", "fused", "graph", "max"};
  bool json = false, list = false, clear = false;
};

TimingFlags& timing_flags() {
  static TimingFlags all;
  return all;
}

void add_output_flags(CLI::App* command) {
  command->add_option("--folder", timing_flags().folder,
                      "where the files go (default: the bench and time, among the runs)");
  command->add_flag("--json", timing_flags().json, "as JSON");
}

void add_training_flags(CLI::App* command) {
  command->add_option("--steps", timing_flags().train.steps, "timed, after warm-up (default 50)")
      ->check(whole_number(1, 1'000'000));
  command->add_option("--precision", timing_flags().precision,
                      "instead of the workload's own: fp32, tf32, bf16, fp16, ...");
  command->add_option("--device", timing_flags().train.device, "cpu, cuda or auto")
      ->check(one_of({"auto", "cpu", "cuda"}));
  command
      ->add_option("--set", timing_flags().settings, "another setting: --set memory.recompute=full; may be given again")
      ->allow_extra_args(false);
  add_output_flags(command);
}

ResultFolder timing_folder(const char* name) { return {format("bench-{}", name), timing_flags().folder}; }

// Each once, in the order given.
std::vector<std::string> once_each(const std::vector<std::string>& words) {
  std::vector<std::string> list;
  for (const auto& word : words)
    if (std::find(list.begin(), list.end(), word) == list.end()) list.push_back(word);
  return list;
}

bench::Changes changed_settings() {
  bench::Changes all;
  if (!timing_flags().precision.empty()) all.emplace_back("train.precision", timing_flags().precision);
  for (const auto& setting : timing_flags().settings) {
    const size_t equals = setting.find('=');
    if (equals == setting.npos)
      throw base::ConfigError(format("--set {} has no value", setting), "write --set section.key=VALUE");
    const auto name = setting.substr(0, equals);
    for (const char* own : {"device", "optimize", "precision"})
      if (name == format("train.{}", own))
        throw base::ConfigError(format("--set {}: this command sets that itself, or has a flag for it", setting),
                                "leave it out; --help shows the flags");
    all.emplace_back(name, setting.substr(equals + 1));
  }
  return all;
}

// What was measured before a stop is shown and kept too; then the stop goes on.
void show_timing(const bench::Outcome& outcome, const base::Path& folder,
                 const std::optional<base::Interrupted>& stopped = std::nullopt) {
  bench::write_outcome(outcome, folder);
  std::printf("%s",
              (timing_flags().json ? outcome.json : outcome.table + "\nfiles: " + folder.string() + "\n").c_str());
  std::fflush(stdout);
  if (stopped) throw *stopped;
}

int workloads_command() {
  for (const auto& workload : bench::workloads()) {
    const auto config = bench::config_of(workload);
    std::printf("%s\n", (timing_flags().json ? bench::workload_json(workload, config)
                                             : format("{:<20} {:<5} {}", workload.name,
                                                      base::word_of(workload.precision), workload.meaning))
                            .c_str());
  }
  return 0;
}

bench::TrainBenchOptions train_options(const ResultFolder& folder) {
  auto options = timing_flags().train;
  if (!timing_flags().workload.empty()) options.workloads = timing_flags().workload;
  options.modes = once_each(options.modes);
  options.peer_modes = once_each(options.peer_modes);
  options.changes = changed_settings();
  bench::find_workloads(options.workloads);
  options.folder = folder.path();
  return options;
}

int train_bench_command() {
  const auto folder = timing_folder("train");
  const auto options = train_options(folder);
  const auto result = bench::run_train_bench(options);
  show_timing(bench::train_outcome(result), options.folder, result.stopped);
  return result.ours_failed() ? 1 : 0;
}

int floor_command() {
  const auto folder = timing_folder("floor");
  const auto options = train_options(folder);
  const auto result = bench::run_floor_bench(options);
  show_timing(bench::floor_outcome(result), options.folder, result.steps.stopped);
  return result.steps.ours_failed() ? 1 : 0;
}

bench::LadderOptions ladder_options(const ResultFolder& folder) {
  const auto settings = changed_settings();
  return {timing_flags().train.device,
          once_each(timing_flags().rungs),
          timing_flags().train.steps,
          settings,
          true,
          folder.path()};
}

bool stands(const bench::Ladder& ladder) {
  return std::any_of(ladder.rungs.begin(), ladder.rungs.end(), [](const bench::Rung& rung) { return rung.up(); });
}

int ladder_command() {
  const auto found = bench::find_workloads(timing_flags().workload);
  if (found.size() != 1)
    throw base::ConfigError(format("a ladder is of one workload, not of {}", found.size()),
                            "`hyperion bench optimize` takes several");
  const auto folder = timing_folder("ladder");
  const auto options = ladder_options(folder);
  const auto ladder = bench::run_ladder(*found[0], options);
  show_timing(bench::ladder_outcome(ladder), options.folder, ladder.stopped);
  return stands(ladder) ? 0 : 1;
}

int optimize_command() {
  const auto found = bench::find_workloads(timing_flags().workload.empty() ? "resnet18-cifar-b256,gpt2-124m-b32"
                                                                           : timing_flags().workload);
  const auto folder = timing_folder("optimize");
  auto options = ladder_options(folder);
  options.trace = false;
  std::vector<bench::Ladder> ladders;
  std::optional<base::Interrupted> stopped;
  for (size_t i = 0; i < found.size() && !stopped; ++i) {
    try {
      ladders.push_back(bench::run_ladder(*found[i], options));
      stopped = ladders.back().stopped;
    } catch (const base::Interrupted& stop) {
      if (ladders.empty()) throw;
      stopped = stop;
    }
  }
  show_timing(bench::optimize_outcome(ladders), options.folder, stopped);
  return std::all_of(ladders.begin(), ladders.end(), stands) ? 0 : 1;
}

int kernels_command() {
  auto options = timing_flags().kernels;
  for (auto* words : {&options.only, &options.sizes, &options.dtypes}) *words = once_each(*words);
  options.device = timing_flags().train.device;
  bench::check_kernel_words(options);
  const auto folder = timing_folder("kernels");
  const auto result = bench::run_kernel_bench(options);
  show_timing(bench::kernel_outcome(result), folder.path(), result.stopped);
  return 0;
}

int roofline_command() {
  base::Path file = timing_flags().first;
  if (std::filesystem::is_directory(file)) file /= "kernels.json";
  if (!std::filesystem::exists(file) && std::filesystem::exists(interop::runs_folder() / timing_flags().first))
    file = interop::runs_folder() / timing_flags().first / "kernels.json";
  const auto outcome = bench::roofline_outcome(base::real_files().read(file), file.string());
  const auto folder = timing_flags().folder.empty() ? file.parent_path() : base::Path(timing_flags().folder);
  bench::write_outcome(outcome, folder);
  std::printf("%s\npicture: %s\n", outcome.table.c_str(), (folder / "roofline.svg").c_str());
  return 0;
}

bench::StartupOptions startup_options() {
  return {timing_flags().workload, timing_flags().train.device, timing_flags().mode, changed_settings(),
          timing_flags().repeats};
}

int startup_command() {
  bench::find_workloads(timing_flags().workload);
  const auto options = startup_options();
  const auto folder = timing_folder("startup");
  std::vector<std::string> words = {"bench", "first-step", timing_flags().workload, "--device",
                                    timing_flags().train.device};
  if (!timing_flags().mode.empty()) words.insert(words.end(), {"--optimize", timing_flags().mode});
  if (!timing_flags().precision.empty()) words.insert(words.end(), {"--precision", timing_flags().precision});
  for (const auto& setting : timing_flags().settings) words.insert(words.end(), {"--set", setting});
  show_timing(bench::startup_outcome(bench::run_startup_bench(options, words)), folder.path());
  return 0;
}

int first_step_command() {
  std::printf("%s\n", bench::startup_line(bench::first_step(startup_options(), timing_flags().begun)).c_str());
  return 0;
}

// Of a canonical workload or, where the name is a file's, of a recipe.
train::RunConfig tuned_config() {
  auto wanted = changed_settings();
  wanted.emplace_back("train.device", timing_flags().train.device);
  if (!timing_flags().workload.ends_with(".toml")) {
    const auto found = bench::find_workloads(timing_flags().workload);
    if (found.size() != 1) throw base::ConfigError("tune takes one workload at a time", "name it, or a recipe");
    return bench::config_of(*found[0], wanted);
  }
  std::vector<Override> overrides;
  for (const auto& [name, value] : wanted) overrides.push_back({name, value, "--set " + name});
  train::RunConfig config;
  resolve(config, timing_flags().workload, overrides, /*checked=*/false);  // an adapter needs no model.from here
  return config;
}

int tune_command() {
  if (timing_flags().workload.empty() && !timing_flags().list && !timing_flags().clear)
    throw base::ConfigError("nothing to tune", "name a workload or a recipe, or give --list or --clear");
  std::optional<train::RunConfig> config;
  if (!timing_flags().workload.empty()) config = tuned_config();
  // Where nothing can be measured anew nothing is lost.
  if (timing_flags().clear && (!config || device::open_device(config->train.device).is_cuda())) {
    const auto kept = bench::kept_rows();
    device::tuning_cache().clear();
    base::log_info(format("{} choices forgotten: {}", kept.rows.size(), kept.file));
  }
  if (!config && !timing_flags().list) return 0;
  const auto result = config ? bench::tune(timing_flags().workload, *config) : bench::kept_rows();
  std::printf("%s", (timing_flags().json ? bench::tune_json(result) : bench::tune_table(result)).c_str());
  return 0;
}

void add_workloads(CLI::App& bench) {
  auto* workloads = bench.add_subcommand("workloads", "the canonical workloads that the benches time");
  workloads->add_flag("--json", timing_flags().json, "a line of JSON each: what a peer needs to build the same");
  workloads->footer("\nExample:\n  hyperion bench workloads");
}

void add_train(CLI::App& bench) {
  auto* train = bench.add_subcommand("train", "whole training steps of the canonical workloads");
  train->add_option("WORKLOAD", timing_flags().workload, "names with commas between them; all (default) or tiny");
  train->add_option("--optimize", timing_flags().train.modes, "of train.optimize, several with commas between them")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_of({"reference", "fused", "graph", "max"}));
  auto* peers = train->add_flag("--peers", timing_flags().train.peers,
                                "PyTorch's steps in the same run, where python3 has torch");
  train->add_option("--peer-modes", timing_flags().train.peer_modes, "of eager,compile,compile+graphs (default: all)")
      ->needs(peers)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_of({"eager", "compile", "compile+graphs"}));
  train->add_flag("--trace", timing_flags().train.trace,
                  "also trace 5 steps: what kernels are for, gaps, a file for Perfetto");
  add_training_flags(train);
  train->footer(
      "\nExamples:\n  hyperion bench train gpt2-124m-b32 --optimize fused,graph --peers\n"
      "  hyperion bench train tiny --device cpu --steps 10");
}

void add_floor(CLI::App& bench) {
  auto* floor = bench.add_subcommand("floor", "how far a transformer's step is from what its parts need, by cause");
  floor->add_option("WORKLOAD", timing_flags().workload, "names with commas between them")->required();
  floor->add_option("--optimize", timing_flags().train.modes, "of train.optimize, several with commas between them")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_of({"reference", "fused", "graph", "max"}));
  add_training_flags(floor);
  floor->footer("\nExample:\n  hyperion bench floor gpt2-124m-b32 --optimize graph,max");
}

void add_ladders(CLI::App& bench) {
  const auto add_rungs = [](CLI::App* command) {
    command->add_option("--optimize", timing_flags().rungs, "the rungs (default reference,fused,graph,max)")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(one_of({"reference", "fused", "graph", "max"}));
  };
  auto* ladder = bench.add_subcommand("ladder", "one workload, from plain operations to graphs: what each rung gains");
  ladder->add_option("WORKLOAD", timing_flags().workload, "one of `hyperion bench workloads`")->required();
  add_rungs(ladder);
  add_training_flags(ladder);
  ladder->footer("\nExample:\n  hyperion bench ladder tinyllama-medium");
  auto* optimize = bench.add_subcommand("optimize", "ladders of several workloads: speedup and memory");
  optimize->add_option("WORKLOAD", timing_flags().workload,
                       "names with commas between them (default resnet18-cifar-b256,gpt2-124m-b32)");
  add_rungs(optimize);
  add_training_flags(optimize);
  optimize->footer("\nExample:\n  hyperion bench optimize");
}

void add_kernels(CLI::App& bench) {
  auto* kernels = bench.add_subcommand("kernels", "each operation against the machine's ceiling and PyTorch's own");
  kernels->add_option("--only", timing_flags().kernels.only, "operations, with commas between them (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false);
  auto* sizes = kernels->add_option("--sizes", timing_flags().kernels.sizes, "of small,medium,large (default: all)")
                    ->delimiter(',')
                    ->allow_extra_args(false);
  kernels
      ->add_option("--shapes", timing_flags().kernels.shapes,
                   "activations of batch x length x width in place of the sizes, as 4x512x1024,8x1024x768: of the "
                   "operations that work on them")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->excludes(sizes);
  kernels
      ->add_option("--dtypes", timing_flags().kernels.dtypes, "of fp32,bf16,fp16 (default: bf16 on a GPU, else fp32)")
      ->delimiter(',')
      ->allow_extra_args(false);
  kernels->add_option("--seconds", timing_flags().kernels.seconds, "for each figure (default 0.2)")
      ->check(number(0.001, 60));
  kernels->add_option("--device", timing_flags().train.device, "cpu, cuda or auto")
      ->check(one_of({"auto", "cpu", "cuda"}));
  add_output_flags(kernels);
  kernels->footer(
      "\nExample:\n  hyperion bench kernels --only gelu,adamw --sizes large\n"
      "  hyperion bench kernels --only bias_gelu,mlp_up_bias_gelu,mlp_up_then_bias_gelu --shapes "
      "4x512x1024,16x1024x4096");
  auto* roofline = bench.add_subcommand("roofline", "draw the kernels of a `bench kernels` under the measured roofs");
  roofline->add_option("RESULT", timing_flags().first, "its folder, name among the runs, or kernels.json")->required();
  roofline->add_option("--folder", timing_flags().folder, "where the picture goes (default: beside kernels.json)");
  roofline->footer("\nExample:\n  hyperion bench roofline runs/bench-kernels-20261115-014000");
}

void add_startup(CLI::App& bench) {
  auto* startup = bench.add_subcommand("startup", "from exec to the end of the first step, in processes of their own");
  auto* first = bench.add_subcommand("first-step", "what `bench startup` starts")->group("");
  first->add_option("--begun", timing_flags().begun, "the wall clock's seconds at exec")->required();
  startup->add_option("--repeats", timing_flags().repeats, "starts, after one that does not count (default 3)")
      ->check(whole_number(1, 1000));
  add_output_flags(startup);
  startup->footer("\nExample:\n  hyperion bench startup gpt2-124m-b32 --optimize graph");
  for (auto* command : {startup, first}) {
    command->add_option("WORKLOAD", timing_flags().workload, "one of `hyperion bench workloads`")->required();
    command->add_option("--optimize", timing_flags().mode, "of train.optimize")
        ->check(one_of({"reference", "fused", "graph", "max"}));
    command->add_option("--precision", timing_flags().precision, "instead of the workload's own");
    command->add_option("--device", timing_flags().train.device, "cpu, cuda or auto")
        ->check(one_of({"auto", "cpu", "cuda"}));
    command->add_option("--set", timing_flags().settings, "another setting: --set memory.recompute=full")
        ->allow_extra_args(false);
  }
}

void add_tune(CLI::App& app) {
  auto* tune = app.add_subcommand("tune", "measure ahead what `--optimize max` chooses among, and keep it");
  tune->add_option("WORKLOAD", timing_flags().workload, "one of `hyperion bench workloads`, or a recipe");
  tune->add_flag("--list", timing_flags().list, "show what is kept");
  tune->add_flag("--clear", timing_flags().clear, "forget what is kept, of every GPU, before anything is measured");
  tune->add_option("--precision", timing_flags().precision,
                   "instead of the workload's own: fp32, tf32, bf16, fp16, ...");
  tune->add_option("--device", timing_flags().train.device, "cuda or auto")->check(one_of({"auto", "cpu", "cuda"}));
  tune->add_option("--set", timing_flags().settings, "another setting: --set train.batch=8; may be given again")
      ->allow_extra_args(false);
  tune->add_flag("--json", timing_flags().json, "as JSON");
  tune->footer(
      "\nExamples:\n  hyperion tune gpt2-124m-b32\n  hyperion tune recipes/quickstart.toml\n  hyperion tune --list");
}

}  // namespace

void add_timing_commands(CLI::App& app, CLI::App& bench) {
  add_workloads(bench);
  add_train(bench);
  add_floor(bench);
  add_ladders(bench);
  add_kernels(bench);
  add_startup(bench);
  add_tune(app);
}

std::optional<int> run_timing_command(CLI::App& app) {
  if (app.got_subcommand("tune")) return tune_command();
  if (!app.got_subcommand("bench")) return {};
  auto* bench = app.get_subcommand("bench");
  if (bench->got_subcommand("workloads")) return workloads_command();
  if (bench->got_subcommand("train")) return train_bench_command();
  if (bench->got_subcommand("floor")) return floor_command();
  if (bench->got_subcommand("ladder")) return ladder_command();
  if (bench->got_subcommand("optimize")) return optimize_command();
  if (bench->got_subcommand("startup")) return startup_command();
  if (bench->got_subcommand("first-step")) return first_step_command();
  if (bench->got_subcommand("kernels")) return kernels_command();
  if (bench->got_subcommand("roofline")) return roofline_command();
  return {};
}

}  // namespace hyperion::cli
