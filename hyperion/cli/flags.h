// The flags of every command: what they are called, and where what is given lands.
#pragma once
#include <string>
#include <vector>

#include "hyperion/cli/classify_command.h"
#include "hyperion/cli/commands.h"
#include "hyperion/cli/compare_command.h"
#include "hyperion/cli/eval_command.h"
#include "hyperion/cli/fetch_command.h"
#include "hyperion/cli/launch_commands.h"
#include "hyperion/cli/recipe_templates.h"
#include "hyperion/cli/runs_commands.h"
#include "hyperion/cli/text_flags.h"
#include "hyperion/host/launch.h"

namespace CLI {
class App;
}

namespace hyperion::cli {

struct Flags {
  TrainOptions train;
  ResumeOptions resume;
  ConfigOptions config;
  EvalOptions eval;
  CompareOptions compare;
  ClassifyOptions classify;
  GenerateOptions generate;
  ChatOptions chat;
  ProbeOptions probe;
  ExportOptions export_;
  FetchOptions fetch;
  BenchOptions bench;
  BenchMemoryOptions bench_memory;
  BenchDataOptions bench_data;
  DataOptions data;
  TrainTokenizerOptions train_tokenizer;
  PrepareOptions prepare;
  InspectOptions inspect;
  LaunchOptions launch;
  RendezvousOptions rendezvous;
  RunsOptions runs;
  host::RankFlags rank;
  InitOptions init;
  std::string shell;
  bool json = false, quick = false;
  std::string steps, seed, device, precision, optimize, memory_budget, on_oom, output, on_bad;
  std::string parallel, zero, zeropp, deterministic;
};

void add_commands(CLI::App& app, Flags& flags);

// What the short flags say, and what is left over after the known flags: --section.key=value or --section.key value.
std::vector<Override> overrides_of(CLI::App* command, const Flags& flags);

}  // namespace hyperion::cli
