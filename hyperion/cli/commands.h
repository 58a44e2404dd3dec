// What each command does once its arguments are read, and how the program is given it. Each returns the exit code;
// errors are thrown.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hyperion/command/completion.h"
#include "hyperion/command/setting_flags.h"
#include "hyperion/host/launch.h"

namespace hyperion::train {
class RunFolder;
}

namespace hyperion::cli {

struct TrainOptions {
  std::string recipe, run;
  std::vector<Override> overrides;
  SettingFlags given;
  host::RankFlags rank;
  bool dry_run = false;
  bool or_resume = false;  // go on with the run where it is there
};
int train_command(const TrainOptions& options);

struct ResumeOptions {
  std::string run;
  std::vector<Override> overrides;
  SettingFlags given;
  host::RankFlags rank;
};
int resume_command(const ResumeOptions& options);

struct ConfigOptions {
  std::string recipe;
  std::vector<Override> overrides;
  SettingFlags given;
  bool origin = false, json = false;
};
int config_command(const ConfigOptions& options);

struct InitOptions {
  std::string folder = ".", output;  // output: the file itself, in place of FOLDER/recipe.toml
  std::string kind, deepspeed;       // of recipe_templates.h; DeepSpeed's JSON; neither: every setting with its default
  int64_t ranks = 0;                 // that DeepSpeed's JSON is for; 0: as it says
};
int init_command(const InitOptions& options);

// A model that writes text, and how it chooses its words.
struct TextOptions {
  std::string model, device = "auto", quantize;  // quantize: as of ClassifyOptions
  int64_t tokens = 64, top_k = 0, seed = 1;
  double temperature = 0, top_p = 1, repetition_penalty = 1;
  std::vector<std::string> stop;
  std::vector<std::string> adapters;  // FOLDER or NAME=FOLDER
  std::string use;                    // one of their names; empty: the first
};

struct GenerateOptions : TextOptions {
  std::string prompts_file;
  std::vector<std::string> prompts;
  bool json = false;
};
int generate_command(const GenerateOptions& options);

struct ProbeOptions {
  std::string model, input, output, adapter, device = "cpu", precision = "fp32", quantize;
  bool grads = false;
};
int probe_command(const ProbeOptions& options);

struct ExportOptions {
  std::string model, folder, adapter;
  bool as_adapter = false;
};
int export_command(const ExportOptions& options);

struct DataOptions {
  std::string tokenizer, pattern;
  int64_t threads = 0;  // 0: one for each core
  bool lines = false, ids = false, tokens = false, count = false, offsets = false;
  bool no_special = false, skip_special = false;
};
int tokenize_command(const DataOptions& options);    // from stdin to stdout
int detokenize_command(const DataOptions& options);  // likewise

struct PrepareOptions {
  std::string recipe;
  std::vector<Override> overrides;
  SettingFlags given;
  bool dry_run = false;
};
int prepare_command(const PrepareOptions& options);

struct InspectOptions {
  std::string folder, grid;
  int64_t samples = 3;
  bool json = false;
};
int inspect_command(const InspectOptions& options);
int verify_command(const InspectOptions& options);
std::string prepare_help();  // its settings

struct TrainTokenizerOptions {
  std::vector<std::string> files, special;
  std::string to, pattern = "gpt2";
  int64_t vocabulary = 32'000, min_frequency = 2;
};
int train_tokenizer_command(const TrainTokenizerOptions& options);

struct DoctorOptions {
  bool json = false, quick = false;
};
int doctor_command(const DoctorOptions& options);

struct BenchOptions {
  std::vector<int64_t> sizes, elements;
  std::vector<std::string> dtypes, only;
  std::string device = "auto", folder;
  double seconds = 1;
  bool json = false, quick = false;
};
int bench_hardware_command(const BenchOptions& options);

struct ChatOptions : TextOptions {
  ChatOptions() { tokens = 512; }
  std::string system;
};
int chat_command(const ChatOptions& options);

struct BenchMemoryOptions {
  std::string recipe;
  std::vector<Override> overrides;
  SettingFlags given;
  int64_t steps = 10;
  bool json = false;
};
int bench_memory_command(const BenchMemoryOptions& options);

struct BenchDataOptions {
  std::vector<std::string> tokenizers, sets;
  std::string text, folder;  // text empty: one is made
  int64_t megabytes = 16;    // of the text that is made
  double seconds = 3;
  bool json = false;
};
int bench_data_command(const BenchDataOptions& options);
int presets_command();

std::vector<CompletionSetting> completion_settings();  // all, with their values

std::string version_lines();  // hyperion, torch, CUDA/HIP, NCCL/RCCL

class Commands;  // registry.h

// In the order of --help.
void add_train_command(Commands& commands);
void add_resume_command(Commands& commands);
void add_config_commands(Commands& commands);
void add_plan_commands(Commands& commands);
void add_init_command(Commands& commands);
// `launched`: what follows its --.
void add_launch_command(Commands& commands, std::vector<std::string> launched);
void add_rendezvous_command(Commands& commands);
void add_eval_command(Commands& commands);
void add_compare_command(Commands& commands);
void add_generate_command(Commands& commands);
void add_chat_command(Commands& commands);
void add_classify_command(Commands& commands);
void add_probe_command(Commands& commands);
void add_export_command(Commands& commands);
void add_fetch_command(Commands& commands);
void add_data_commands(Commands& commands);
void add_doctor_command(Commands& commands);
void add_bench_commands(Commands& commands);
void add_tune_command(Commands& commands);
void add_comm_check_command(Commands& commands);
void add_profile_command(Commands& commands);
void add_trace_commands(Commands& commands);
void add_presets_command(Commands& commands);
void add_runs_commands(Commands& commands);
void add_checkpoint_commands(Commands& commands);
void add_report_command(Commands& commands);
void add_dash_command(Commands& commands);
void write_run_page(const train::RunFolder& run, bool in_use);  // `in_use`: a process trains it now
void add_completion_command(Commands& commands);
// Those of `profile`, `data`, `trace` and `bench`.
void add_profile_all(Commands& profile);
void add_set_commands(Commands& data);
void add_trace_critical_path(Commands& trace);
void add_trace_export(Commands& trace);
void add_runs_export(Commands& runs);
void add_trace_roofline(Commands& trace);
void add_hardware_bench(Commands& bench);
void add_timing_benches(Commands& bench);
void add_comm_benches(Commands& bench);
void add_pipeline_bench(Commands& bench);
void add_baseline_commands(Commands& bench);

}  // namespace hyperion::cli
