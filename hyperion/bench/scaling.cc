#include "hyperion/bench/scaling.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/signals.h"
#include "hyperion/bench/child.h"
#include "hyperion/bench/data.h"
#include "hyperion/device/device.h"
#include "hyperion/host/cpu.h"
#include "hyperion/host/programs.h"

namespace hyperion::bench {
namespace {

using base::format;

constexpr const char* kGpt2 = R"(# GPT-2 Large in small: as deep for its width, trained on text, a byte a token.
[train]
batch = 32
length = 64
log_every = 1
[model]
layers = 12
heads = 5
width = 160
context = 64
[data]
source = "text"
path = "{}"
[optim]
warmup = 2
)";

std::vector<std::string> mode_flags(const std::string& mode) {
  if (mode == "zeropp") return {"--zero", "3", "--zeropp", "weights,secondary,grads"};
  return {"--zero", mode == "ddp" ? "0" : mode.substr(4)};
}

std::string name_of(const ScalingRow& row) {
  return row.batch > 0 ? format("{}-{}-b{}", row.mode, row.ranks, row.batch) : format("{}-{}", row.mode, row.ranks);
}

// One process is the same in every mode, so it runs once.
std::vector<ScalingRow> plan(const ScalingOptions& options) {
  auto ranks = options.ranks.empty() ? std::vector<int64_t>{1, 2, 4} : options.ranks;
  const auto modes = options.modes.empty() ? std::vector<std::string>{"ddp", "zero2", "zero3"} : options.modes;
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  const auto batches = options.batches.empty() ? std::vector<int64_t>{0} : options.batches;
  std::vector<ScalingRow> rows;
  for (const int64_t batch : batches)
    for (const int64_t count : ranks) {
      for (const auto& mode : modes) {
        ScalingRow row;
        row.mode = count == 1 ? "ddp" : mode, row.ranks = count, row.batch = batch;
        rows.push_back(row);
        if (count == 1) break;
      }
    }
  return rows;
}

ScalingJob job_of(const ScalingRow& row) {
  ScalingJob job{name_of(row), row.ranks, {"--memory.report=true"}};
  for (auto& flag : mode_flags(row.mode)) job.flags.push_back(flag);
  if (row.batch > 0) {
    job.flags.push_back(format("--train.batch={}", row.batch * row.ranks));
    job.flags.push_back("--train.batch_per_rank=0");
  }
  return job;
}

std::vector<std::string> job_words(const ScalingOptions& options, const base::Path& recipe, int64_t threads,
                                   const ScalingJob& job) {
  const std::string& name = job.name;
  // What the job says goes to a file, from which a failure is told.
  std::vector<std::string> words = {"sh",
                                    "-c",
                                    "exec \"$@\" 2>\"$0\"",
                                    options.folder / (name + ".err"),
                                    "env",
                                    "HYPERION_RUNS=" + (options.folder / "runs").string(),
                                    format("OMP_NUM_THREADS={}", threads),
                                    host::own_program(),
                                    "launch",
                                    "-n",
                                    format("{}", job.ranks),
                                    "--show",
                                    "none",
                                    "--logs",
                                    options.folder / "logs" / name,
                                    "--",
                                    "train",
                                    recipe,
                                    "--run",
                                    name,
                                    "--steps",
                                    format("{}", options.steps),
                                    "--train.epochs=0",  // of a recipe that says those
                                    "--device",
                                    options.device,
                                    "--eval.every=0",
                                    "--eval.batches=1",
                                    "--checkpoint.every=0",
                                    "--optim.warmup=0"};
  for (const auto& flag : job.flags) words.push_back(flag);
  for (const auto& setting : options.settings) {  // in place of ours
    std::erase_if(words, [own = "--" + setting.substr(0, setting.find('=') + 1)](const auto& word) {
      return word.starts_with(own);
    });
    words.push_back("--" + setting);
  }
  return words;
}

std::string reason(const base::Path& said, int code) {
  std::string text = base::real_files().exists(said) ? base::real_files().read(said) : "";
  const size_t at = text.rfind("error: ");
  if (at == text.npos) return format("exit code {}", code);
  return text.substr(at + 7, text.find('\n', at) - at - 7);
}

void read_run(ScalingRow& row, const base::Path& run, int64_t warm_up) {
  auto& files = base::real_files();
  std::vector<std::string> tables;
  for (int64_t rank = 0; rank < row.ranks; ++rank)
    tables.push_back(files.read(run / format("metrics.rank-{}.csv", rank)));
  read_rank_tables(row, tables, warm_up);
  const auto memory = base::parse_json(files.read(run / "memory.json"), (run / "memory.json").string());
  row.state = memory.at("weights").get<int64_t>() + memory.at("gradients").get<int64_t>() +
              memory.at("optimizer").get<int64_t>() + memory.at("optimizer_on_host").get<int64_t>();
  row.activations = memory.at("activations");
  files.remove_all(run / "checkpoints");
}

// Column -> its cells; cells that are empty are 0.
std::map<std::string, std::vector<double>> columns_of(const std::string& table) {
  std::map<std::string, std::vector<double>> columns;
  std::vector<std::string> names;
  for (size_t at = 0; at < table.size();) {
    const size_t end = std::min(table.find('\n', at), table.size());
    for (size_t i = 0, cell = at; cell <= end; ++i) {
      const size_t comma = std::min(table.find(',', cell), end);
      const std::string text = table.substr(cell, comma - cell);
      if (at == 0) {
        names.push_back(text);
      } else if (i < names.size()) {
        double value = 0;
        std::from_chars(text.data(), text.data() + text.size(), value);
        columns[names[i]].push_back(value);
      }
      cell = comma + 1;
    }
    at = end + 1;
  }
  return columns;
}

}  // namespace

const std::vector<std::string>& scaling_modes() {
  static const std::vector<std::string> modes = {"ddp", "zero1", "zero2", "zero3", "zeropp"};
  return modes;
}

void check_scaling(const ScalingOptions& options) {
  for (const auto& setting : options.settings)
    if (setting.find('=') == setting.npos)
      throw base::ConfigError(format("--set {} has no value", setting), "write --set section.key=VALUE");
  if (!options.recipe.empty() && !base::real_files().exists(options.recipe))
    throw base::ConfigError(format("there is no recipe {}", options.recipe), "name a TOML file");
}

base::Path scaling_recipe(const ScalingOptions& options) {
  if (!options.recipe.empty()) return options.recipe;
  auto& files = base::real_files();
  const auto recipe = options.folder / "gpt2.toml", text = options.folder / "text.txt";
  base::write_atomically(files, text, mixed_text(1'000'000));
  base::write_atomically(files, recipe, format(kGpt2, std::filesystem::absolute(text).string()));
  return recipe;
}

int64_t scaling_warm_up(int64_t steps) { return std::min(std::max<int64_t>(2, steps / 4), steps - 1); }

std::string run_scaling_job(const ScalingOptions& options, const base::Path& recipe, int64_t threads,
                            const ScalingJob& job) {
  const int code = run_child(job_words(options, recipe, threads, job), [](std::string_view) {});
  return code == 0 ? "" : reason(options.folder / (job.name + ".err"), code);
}

double ScalingRow::hidden() const { return under_way > 0 ? std::clamp(1 - exposed / under_way, 0.0, 1.0) : 0; }

void read_rank_tables(ScalingRow& row, const std::vector<std::string>& tables, int64_t warm_up) {
  std::vector<double> slowest;
  double tokens = 0;
  const auto ranks = static_cast<double>(tables.size());
  for (size_t rank = 0; rank < tables.size(); ++rank) {
    const auto columns = columns_of(tables[rank]);
    const auto cells = [&](const char* name) {
      const auto found = columns.find(name);
      if (found == columns.end() || static_cast<int64_t>(found->second.size()) <= warm_up)
        throw base::CorruptError(format("metrics.rank-{}.csv has no {} after step {}", rank, name, warm_up),
                                 "the job ended early; its logs say why");
      return std::vector<double>(found->second.begin() + warm_up, found->second.end());
    };
    const auto steps = cells("step_ms");
    slowest.resize(std::max(slowest.size(), steps.size()));
    for (size_t i = 0; i < steps.size(); ++i) slowest[i] = std::max(slowest[i], steps[i] / 1e3);
    row.exposed += profile::quantile(cells("comm_ms"), 0.5) / 1e3 / ranks;
    row.under_way += profile::quantile(cells("comm_total_ms"), 0.5) / 1e3 / ranks;
    row.bytes += profile::quantile(cells("comm_bytes"), 0.5) / ranks;
    const auto peaks = cells("memory_peak");
    row.peak = std::max(row.peak, static_cast<int64_t>(*std::max_element(peaks.begin(), peaks.end())));
    if (rank == 0) tokens = cells("tokens").back(), row.loss = cells("loss").back();
  }
  row.step = profile::spread_of(slowest);
  row.tokens_s = tokens / row.step.median;
  row.computing = std::max(0.0, row.step.median - row.exposed);
}

const ScalingRow* base_of(const ScalingResult& result, const ScalingRow& row) {
  const ScalingRow* base = nullptr;
  for (const auto& other : result.rows)
    if (other.failed.empty() && other.batch == row.batch && (other.mode == row.mode || other.ranks == 1) &&
        (base == nullptr || other.ranks < base->ranks))
      base = &other;
  return base;
}

ScalingResult run_scaling_bench(const ScalingOptions& options) {
  const base::OperationScope operation("bench.scaling");
  check_scaling(options);
  base::real_files().create_folders(options.folder);
  const base::Path recipe = scaling_recipe(options);
  ScalingResult result{recipe.stem().string(),
                       device::device_text(device::open_device(options.device)),
                       options.steps,
                       options.threads,
                       host::this_cpu().usable_cores(),
                       plan(options)};
  int64_t most = 1;
  for (const auto& row : result.rows) most = std::max(most, row.ranks);
  if (result.threads == 0) result.threads = std::max<int64_t>(1, result.cores / most);
  base::ProgressLine progress;
  for (size_t i = 0; i < result.rows.size(); ++i) {
    auto& row = result.rows[i];
    base::throw_if_stopped("bench scaling");
    const auto doing = format("bench scaling  {}/{}  {} on {} {}", i + 1, result.rows.size(), row.mode, row.ranks,
                              row.ranks == 1 ? "rank" : "ranks");
    progress.live() ? progress.show(doing) : base::log_info(doing);
    row.failed = run_scaling_job(options, recipe, result.threads, job_of(row));
    if (row.failed.empty()) read_run(row, options.folder / "runs" / name_of(row), scaling_warm_up(options.steps));
  }
  progress.clear();
  return result;
}

}  // namespace hyperion::bench
