// What each command does once its arguments are read. Each returns the exit code; errors are thrown.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace hyperion::cli {

// "train.steps" -> "300", with the flag as typed for messages and origins.
struct Override {
  std::string name, value, flag;
};

struct TrainOptions {
  std::string recipe, run;
  std::vector<Override> overrides;
  bool dry_run = false;
};
int train_command(const TrainOptions& options);

struct ResumeOptions {
  std::string run;
  std::vector<Override> overrides;
};
int resume_command(const ResumeOptions& options);

struct ConfigOptions {
  std::string recipe;
  std::vector<Override> overrides;
  bool origin = false, json = false;
};
int config_command(const ConfigOptions& options);

int init_command(const std::string& folder);

struct EvalOptions {
  std::string model, device = "auto";
  int64_t batches = 0;  // 0: the run's own eval.batches
  bool json = false;
};
int eval_command(const EvalOptions& options);

struct GenerateOptions {
  std::string model, prompt, device = "auto", stop;
  int64_t tokens = 64, top_k = 0, seed = 1;
  double temperature = 0;
  bool json = false;
};
int generate_command(const GenerateOptions& options);

struct ProbeOptions {
  std::string model, input, output, device = "cpu", precision = "fp32";
  bool grads = false;
};
int probe_command(const ProbeOptions& options);

int export_command(const std::string& model, const std::string& folder);

int doctor_command(bool json, bool quick);

struct BenchOptions {
  std::vector<int64_t> sizes, elements;
  std::vector<std::string> dtypes, only;
  std::string device = "auto", folder;
  double seconds = 1;
  bool json = false, quick = false;
};
int bench_hardware_command(const BenchOptions& options);

int runs_list_command(bool json);
int runs_show_command(const std::string& run, bool json);

// All settings with their meaning, for --help; and their names, for completion.
std::string settings_help();
std::vector<std::string> setting_names();

std::string version_lines();  // hyperion, torch, CUDA/HIP, NCCL/RCCL

}  // namespace hyperion::cli
