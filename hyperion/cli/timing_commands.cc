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
#include "hyperion/bench/peers.h"
#include "hyperion/bench/startup.h"
#include "hyperion/bench/train.h"
#include "hyperion/bench/tune.h"
#include "hyperion/bench/workloads.h"
#include "hyperion/cli/commands.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/resolve.h"
#include "hyperion/command/result_folder.h"
#include "hyperion/command/usage.h"
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

void add_output_flags(CLI::App* command, TimingFlags& flags) {
  command->add_option("--folder", flags.folder, "where the files go (default: the bench and time, among the runs)");
  command->add_flag("--json", flags.json, "as JSON");
}

void add_training_flags(CLI::App* command, TimingFlags& flags) {
  command->add_option("--steps", flags.train.steps, "timed, after warm-up (default 50)")
      ->check(whole_number(1, 1'000'000));
  command->add_option("--precision", flags.precision, "instead of the workload's own: fp32, tf32, bf16, fp16, ...");
  command->add_option("--device", flags.train.device, "cpu, cuda or auto")->check(one_of({"auto", "cpu", "cuda"}));
  command->add_option("--set", flags.settings, "another setting: --set memory.recompute=full; may be given again")
      ->allow_extra_args(false);
  add_output_flags(command, flags);
}

ResultFolder timing_folder(const TimingFlags& flags, const char* name) {
  return {format("bench-{}", name), flags.folder};
}

// Each once, in the order given.
std::vector<std::string> once_each(const std::vector<std::string>& words) {
  std::vector<std::string> list;
  for (const auto& word : words)
    if (std::find(list.begin(), list.end(), word) == list.end()) list.push_back(word);
  return list;
}

bench::Changes changed_settings(const TimingFlags& flags) {
  bench::Changes all;
  if (!flags.precision.empty()) all.emplace_back("train.precision", flags.precision);
  for (const auto& setting : flags.settings) {
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
void show_timing(const TimingFlags& flags, const bench::Outcome& outcome, const base::Path& folder,
                 const std::optional<base::Interrupted>& stopped = std::nullopt) {
  bench::write_outcome(outcome, folder);
  std::printf("%s", (flags.json ? outcome.json : outcome.table + "\nfiles: " + folder.string() + "\n").c_str());
  std::fflush(stdout);
  if (stopped) throw *stopped;
}

int workloads_command(const TimingFlags& flags) {
  for (const auto& workload : bench::workloads()) {
    const auto config = bench::config_of(workload);
    std::printf("%s\n", (flags.json ? bench::workload_json(workload, config)
                                    : format("{:<23} {:<5} {}", workload.name, base::word_of(workload.precision),
                                             workload.meaning))
                            .c_str());
  }
  return 0;
}

bench::TrainBenchOptions train_options(const TimingFlags& flags, const ResultFolder& folder) {
  auto options = flags.train;
  if (!flags.workload.empty()) options.workloads = flags.workload;
  options.modes = once_each(options.modes);
  options.peer_modes = once_each(options.peer_modes);
  options.changes = changed_settings(flags);
  bench::find_workloads(options.workloads);
  options.folder = folder.path();
  return options;
}

int train_bench_command(const TimingFlags& flags) {
  const auto folder = timing_folder(flags, "train");
  const auto options = train_options(flags, folder);
  const auto result = bench::run_train_bench(options);
  show_timing(flags, bench::train_outcome(result), options.folder, result.stopped);
  return result.ours_failed() ? 1 : 0;
}

int floor_command(const TimingFlags& flags) {
  const auto folder = timing_folder(flags, "floor");
  const auto options = train_options(flags, folder);
  const auto result = bench::run_floor_bench(options);
  show_timing(flags, bench::floor_outcome(result), options.folder, result.steps.stopped);
  return result.steps.ours_failed() ? 1 : 0;
}

bench::LadderOptions ladder_options(const TimingFlags& flags, const ResultFolder& folder) {
  const auto settings = changed_settings(flags);
  return {flags.train.device, once_each(flags.rungs), flags.train.steps, settings, true, folder.path()};
}

bool stands(const bench::Ladder& ladder) {
  return std::any_of(ladder.rungs.begin(), ladder.rungs.end(), [](const bench::Rung& rung) { return rung.up(); });
}

int ladder_command(const TimingFlags& flags) {
  const auto found = bench::find_workloads(flags.workload);
  if (found.size() != 1)
    throw base::ConfigError(format("a ladder is of one workload, not of {}", found.size()),
                            "`hyperion bench optimize` takes several");
  const auto folder = timing_folder(flags, "ladder");
  const auto options = ladder_options(flags, folder);
  const auto ladder = bench::run_ladder(*found[0], options);
  show_timing(flags, bench::ladder_outcome(ladder), options.folder, ladder.stopped);
  return stands(ladder) ? 0 : 1;
}

int optimize_command(const TimingFlags& flags) {
  const auto found =
      bench::find_workloads(flags.workload.empty() ? "resnet18-cifar-b256,gpt2-124m-b32" : flags.workload);
  const auto folder = timing_folder(flags, "optimize");
  auto options = ladder_options(flags, folder);
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
  show_timing(flags, bench::optimize_outcome(ladders), options.folder, stopped);
  return std::all_of(ladders.begin(), ladders.end(), stands) ? 0 : 1;
}

int kernels_command(const TimingFlags& flags) {
  auto options = flags.kernels;
  for (auto* words : {&options.only, &options.sizes, &options.dtypes}) *words = once_each(*words);
  options.device = flags.train.device;
  bench::check_kernel_words(options);
  const auto folder = timing_folder(flags, "kernels");
  const auto result = bench::run_kernel_bench(options);
  show_timing(flags, bench::kernel_outcome(result), folder.path(), result.stopped);
  return 0;
}

int roofline_command(const TimingFlags& flags) {
  base::Path file = flags.first;
  if (std::filesystem::is_directory(file)) file /= "kernels.json";
  if (!std::filesystem::exists(file) && std::filesystem::exists(interop::runs_folder() / flags.first))
    file = interop::runs_folder() / flags.first / "kernels.json";
  const auto outcome = bench::roofline_outcome(base::real_files().read(file), file.string());
  const auto folder = flags.folder.empty() ? file.parent_path() : base::Path(flags.folder);
  bench::write_outcome(outcome, folder);
  std::printf("%s\npicture: %s\n", outcome.table.c_str(), (folder / "roofline.svg").c_str());
  return 0;
}

bench::StartupOptions startup_options(const TimingFlags& flags) {
  return {flags.workload, flags.train.device, flags.mode, changed_settings(flags), flags.repeats};
}

int startup_command(const TimingFlags& flags) {
  bench::find_workloads(flags.workload);
  const auto options = startup_options(flags);
  const auto folder = timing_folder(flags, "startup");
  std::vector<std::string> words = {"bench", "first-step", flags.workload, "--device", flags.train.device};
  if (!flags.mode.empty()) words.insert(words.end(), {"--optimize", flags.mode});
  if (!flags.precision.empty()) words.insert(words.end(), {"--precision", flags.precision});
  for (const auto& setting : flags.settings) words.insert(words.end(), {"--set", setting});
  show_timing(flags, bench::startup_outcome(bench::run_startup_bench(options, words)), folder.path());
  return 0;
}

int first_step_command(const TimingFlags& flags) {
  std::printf("%s\n", bench::startup_line(bench::first_step(startup_options(flags), flags.begun)).c_str());
  return 0;
}

// Of a canonical workload or, where the name is a file's, of a recipe.
train::RunConfig tuned_config(const TimingFlags& flags) {
  auto wanted = changed_settings(flags);
  wanted.emplace_back("train.device", flags.train.device);
  if (!flags.workload.ends_with(".toml")) {
    const auto found = bench::find_workloads(flags.workload);
    if (found.size() != 1) throw base::ConfigError("tune takes one workload at a time", "name it, or a recipe");
    return bench::config_of(*found[0], wanted);
  }
  std::vector<Override> overrides;
  for (const auto& [name, value] : wanted) overrides.push_back({name, value, "--set " + name});
  train::RunConfig config;
  resolve(config, flags.workload, overrides, /*checked=*/false);  // an adapter needs no model.from here
  return config;
}

int tune_command(const TimingFlags& flags) {
  if (flags.workload.empty() && !flags.list && !flags.clear)
    throw base::ConfigError("nothing to tune", "name a workload or a recipe, or give --list or --clear");
  std::optional<train::RunConfig> config;
  if (!flags.workload.empty()) config = tuned_config(flags);
  // Where nothing can be measured anew nothing is lost.
  if (flags.clear && (!config || device::open_device(config->train.device).is_cuda())) {
    const auto kept = bench::kept_rows();
    device::tuning_cache().clear();
    base::log_info(format("{} choices forgotten: {}", kept.rows.size(), kept.file));
  }
  if (!config && !flags.list) return 0;
  const auto result = config ? bench::tune(flags.workload, *config) : bench::kept_rows();
  std::printf("%s", (flags.json ? bench::tune_json(result) : bench::tune_table(result)).c_str());
  return 0;
}

void add_workloads_flags(CLI::App* workloads, TimingFlags& flags) {
  workloads->add_flag("--json", flags.json, "a line of JSON each: what a peer needs to build the same");
  workloads->footer("\nExample:\n  hyperion bench workloads");
}

void add_train_bench_flags(CLI::App* train, TimingFlags& flags) {
  train->add_option("WORKLOAD", flags.workload, "names with commas between them; or all (default), finetune or tiny");
  train->add_option("--optimize", flags.train.modes, "of train.optimize, several with commas between them")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_of({"reference", "fused", "graph", "max"}));
  auto* peers =
      train->add_flag("--peers", flags.train.peers, "PyTorch's steps in the same run, where python3 has torch");
  train
      ->add_option("--peer-modes", flags.train.peer_modes,
                   "of eager,compile,compile+graphs (default: all); on documents of eager and compile, each +packed, "
                   "+padded or both")
      ->needs(peers)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_of(bench::all_peer_modes()));
  train->add_flag("--trace", flags.train.trace, "also trace 5 steps: what kernels are for, gaps, a file for Perfetto");
  add_training_flags(train, flags);
  train->footer(
      "\nExamples:\n  hyperion bench train gpt2-124m-b32 --optimize fused,graph --peers\n"
      "  hyperion bench train qwen2.5-3b-lora,qwen2.5-3b-packed --optimize graph --peers --peer-modes compile\n"
      "  hyperion bench train gpt2-774m-b8 --set lora.rank=16 --set model.quantize=nf4\n"
      "  hyperion bench train tiny --device cpu --steps 10");
}

void add_floor_flags(CLI::App* floor, TimingFlags& flags) {
  floor->add_option("WORKLOAD", flags.workload, "names with commas between them")->required();
  floor->add_option("--optimize", flags.train.modes, "of train.optimize, several with commas between them")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_of({"reference", "fused", "graph", "max"}));
  add_training_flags(floor, flags);
  floor->footer(
      "\nExamples:\n  hyperion bench floor gpt2-124m-b32 --optimize graph,max\n"
      "  hyperion bench floor qwen2.5-3b-lora,qwen2.5-3b-lora-packed --optimize graph");
}

void add_rungs(CLI::App* command, TimingFlags& flags) {
  command->add_option("--optimize", flags.rungs, "the rungs (default reference,fused,graph,max)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_of({"reference", "fused", "graph", "max"}));
}

void add_ladder_flags(CLI::App* ladder, TimingFlags& flags) {
  ladder->add_option("WORKLOAD", flags.workload, "one of `hyperion bench workloads`")->required();
  add_rungs(ladder, flags);
  add_training_flags(ladder, flags);
  ladder->footer("\nExample:\n  hyperion bench ladder tinyllama-medium");
}

void add_optimize_flags(CLI::App* optimize, TimingFlags& flags) {
  optimize->add_option("WORKLOAD", flags.workload,
                       "names with commas between them (default resnet18-cifar-b256,gpt2-124m-b32)");
  add_rungs(optimize, flags);
  add_training_flags(optimize, flags);
  optimize->footer("\nExample:\n  hyperion bench optimize");
}

void add_kernels_flags(CLI::App* kernels, TimingFlags& flags) {
  kernels->add_option("--only", flags.kernels.only, "operations, with commas between them (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false);
  auto* sizes = kernels->add_option("--sizes", flags.kernels.sizes, "of small,medium,large (default: all)")
                    ->delimiter(',')
                    ->allow_extra_args(false);
  kernels
      ->add_option("--shapes", flags.kernels.shapes,
                   "activations of batch x length x width in place of the sizes, as 4x512x1024,8x1024x768: of the "
                   "operations that work on them")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->excludes(sizes);
  for (const auto& [axis, meaning] :
       {std::pair{"tp",
                  "also as one shard of so many processes, as 2,4,8: of the operations that tensor parallelism cuts"},
        {"cp", "likewise the steps of a ring of so many processes, where what travels costs nothing"},
        {"ep", "likewise tokens on their way to the experts of so many processes and back"}})
    kernels
        ->add_option_function<std::vector<int64_t>>(
            format("--{}", axis),
            [&flags, name = std::string(axis)](const auto& counts) { flags.kernels.cuts[name] = counts; }, meaning)
        ->delimiter(',')
        ->allow_extra_args(false);
  kernels->add_option("--dtypes", flags.kernels.dtypes, "of fp32,bf16,fp16 (default: bf16 on a GPU, else fp32)")
      ->delimiter(',')
      ->allow_extra_args(false);
  kernels->add_option("--seconds", flags.kernels.seconds, "for each figure (default 0.2)")->check(number(0.001, 60));
  kernels->add_option("--device", flags.train.device, "cpu, cuda or auto")->check(one_of({"auto", "cpu", "cuda"}));
  add_output_flags(kernels, flags);
  kernels->footer(
      "\nExample:\n  hyperion bench kernels --only gelu,adamw --sizes large\n"
      "  hyperion bench kernels --only bias_gelu,mlp_up_bias_gelu,mlp_up_then_bias_gelu --shapes "
      "4x512x1024,16x1024x4096\n"
      "  hyperion bench kernels --tp 2,4,8 --sizes large\n"
      "  hyperion bench kernels --cp 2,4 --ep 2,4");
}

void add_roofline_flags(CLI::App* roofline, TimingFlags& flags) {
  roofline->add_option("RESULT", flags.first, "its folder, name among the runs, or kernels.json")->required();
  roofline->add_option("--folder", flags.folder, "where the picture goes (default: beside kernels.json)");
  roofline->footer("\nExample:\n  hyperion bench roofline runs/bench-kernels-20261115-014000");
}

void add_started_flags(CLI::App* command, TimingFlags& flags) {
  command->add_option("WORKLOAD", flags.workload, "one of `hyperion bench workloads`")->required();
  command->add_option("--optimize", flags.mode, "of train.optimize")
      ->check(one_of({"reference", "fused", "graph", "max"}));
  command->add_option("--precision", flags.precision, "instead of the workload's own");
  command->add_option("--device", flags.train.device, "cpu, cuda or auto")->check(one_of({"auto", "cpu", "cuda"}));
  command->add_option("--set", flags.settings, "another setting: --set memory.recompute=full")->allow_extra_args(false);
}

void add_startup_flags(CLI::App* startup, TimingFlags& flags) {
  startup->add_option("--repeats", flags.repeats, "starts, after one that does not count (default 3)")
      ->check(whole_number(1, 1000));
  add_output_flags(startup, flags);
  startup->footer("\nExample:\n  hyperion bench startup gpt2-124m-b32 --optimize graph");
  add_started_flags(startup, flags);
}

void add_first_step_flags(CLI::App* first, TimingFlags& flags) {
  first->group("");
  first->add_option("--begun", flags.begun, "the wall clock's seconds at exec")->required();
  add_started_flags(first, flags);
}

void add_tune_flags(CLI::App* tune, TimingFlags& flags) {
  tune->add_option("WORKLOAD", flags.workload, "one of `hyperion bench workloads`, or a recipe");
  tune->add_flag("--list", flags.list, "show what is kept");
  tune->add_flag("--clear", flags.clear, "forget what is kept, of every GPU, before anything is measured");
  tune->add_option("--precision", flags.precision, "instead of the workload's own: fp32, tf32, bf16, fp16, ...");
  tune->add_option("--device", flags.train.device, "cuda or auto")->check(one_of({"auto", "cpu", "cuda"}));
  tune->add_option("--set", flags.settings, "another setting: --set train.batch=8; may be given again")
      ->allow_extra_args(false);
  tune->add_flag("--json", flags.json, "as JSON");
  tune->footer(
      "\nExamples:\n  hyperion tune gpt2-124m-b32\n  hyperion tune recipes/quickstart.toml\n  hyperion tune --list");
}

}  // namespace

void add_timing_benches(Commands& bench) {
  bench.add<TimingFlags>("workloads", "the canonical workloads that the benches time", add_workloads_flags,
                         workloads_command);
  bench.add<TimingFlags>("train", "whole training steps of the canonical workloads", add_train_bench_flags,
                         train_bench_command);
  bench.add<TimingFlags>("floor", "how far a transformer's step is from what its parts need, by cause", add_floor_flags,
                         floor_command);
  bench.add<TimingFlags>("ladder", "one workload, from plain operations to graphs: what each rung gains",
                         add_ladder_flags, ladder_command);
  bench.add<TimingFlags>("optimize", "ladders of several workloads: speedup and memory", add_optimize_flags,
                         optimize_command);
  bench.add<TimingFlags>("kernels", "each operation against the machine's ceiling and PyTorch's own", add_kernels_flags,
                         kernels_command);
  bench.add<TimingFlags>("roofline", "draw the kernels of a `bench kernels` under the measured roofs",
                         add_roofline_flags, roofline_command);
  bench.add<TimingFlags>("startup", "from exec to the end of the first step, in processes of their own",
                         add_startup_flags, startup_command);
  bench.add<TimingFlags>("first-step", "what `bench startup` starts", add_first_step_flags, first_step_command);
}

void add_tune_command(Commands& commands) {
  commands.add<TimingFlags>("tune", "measure ahead what `--optimize max` chooses among, and keep it", add_tune_flags,
                            tune_command);
}

}  // namespace hyperion::cli
