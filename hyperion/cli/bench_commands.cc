#include <cstdio>
#include <filesystem>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/bench/data.h"
#include "hyperion/bench/memory.h"
#include "hyperion/cli/commands.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/resolve.h"
#include "hyperion/command/result_folder.h"
#include "hyperion/command/usage.h"
#include "hyperion/host/cpu.h"
#include "hyperion/models/registry.h"

namespace hyperion::cli {

int bench_memory_command(const BenchMemoryOptions& options) {
  train::RunConfig config;
  resolve(config, options.recipe, options.overrides, /*checked=*/false);  // an adapter needs no model.from here
  const ResultFolder folder("bench-memory", {});
  const auto result =
      bench::run_memory_bench(config, std::filesystem::path(options.recipe).stem().string(), options.steps);
  const auto table = bench::memory_bench_table(result), json = bench::memory_bench_json(result);
  base::write_atomically(base::real_files(), folder.path() / "memory.md", table);
  base::write_atomically(base::real_files(), folder.path() / "memory.json", json);
  std::printf("%s", (options.json ? json : table + "\nfiles: " + folder.path().string() + "\n").c_str());
  return 0;
}

int bench_data_command(const BenchDataOptions& options) {
  if (options.tokenizers.empty() && options.sets.empty())
    throw base::ConfigError("nothing to measure", "name a --tokenizer, or a prepared --set");
  auto& files = base::real_files();
  const ResultFolder folder("bench-data", options.folder);
  const int cores = host::this_cpu().usable_cores();
  bench::DataResult result{{}, 0, cores, {}, {}};
  if (!options.tokenizers.empty()) {
    const auto text = options.text.empty() ? bench::mixed_text(static_cast<size_t>(options.megabytes) * 1'000'000)
                                           : files.read(options.text);
    result = bench::run_data_bench(options.tokenizers, text, options.text.empty() ? "made mixed text" : options.text,
                                   cores, options.seconds);
  }
  for (const auto& set : options.sets) result.sets.push_back(bench::run_set_bench(set, 0, options.seconds));
  const auto table = bench::data_bench_table(result), json = bench::data_bench_json(result);
  base::write_atomically(files, folder.path() / "data.md", table);
  base::write_atomically(files, folder.path() / "data.json", json);
  base::write_atomically(files, folder.path() / "data.csv", bench::data_bench_csv(result));
  std::printf("%s", (options.json ? json : table + "\nfiles: " + folder.path().string() + "\n").c_str());
  return 0;
}

int presets_command() {
  for (const auto& preset : models::presets()) {
    models::Recipe recipe;
    recipe.preset = preset.name;
    const auto shape = models::config_shape(models::config_json(recipe), preset.name, 1024);
    std::printf("%-18s %15s  %s\n", preset.name, base::with_commas(shape.parameters).c_str(), preset.meaning);
  }
  return 0;
}

void add_bench_commands(Commands& commands) {
  auto bench = commands.group(
      "bench", "measure this machine",
      "\nExamples:\n  hyperion bench hardware --quick\n  hyperion bench train tiny --device cpu --steps 10\n  hyperion "
      "bench data --set sets/wikitext");
  const auto memory_flags = [](CLI::App* memory, BenchMemoryOptions& options) {
    memory->add_option("RECIPE", options.recipe, "its model, batch, length and [lora]; the data is random")->required();
    memory->add_option("--repeats", options.steps, "steps timed for each (default 10)")
        ->check(whole_number(1, 100'000));
    memory->add_option("--device", options.given.device, "cpu, cuda or auto");
    memory->add_flag("--json", options.json, "as JSON");
    memory->allow_extras();
    memory->footer("\nExample:\n  hyperion bench memory recipes/workloads/gpt2-774m-b8.toml");
  };
  const auto data_flags = [](CLI::App* data, BenchDataOptions& options) {
    data->add_option("--tokenizer", options.tokenizers,
                     "a tokenizer's file or folder, measured on one thread and on all cores; may be "
                     "given again");
    data->add_option("--set", options.sets, "a prepared set: how fast it is opened and read; may be given again");
    data->add_option("--text", options.text, "a file of text (default: a mixed text is made)");
    data->add_option("--megabytes", options.megabytes, "of the text that is made (default 16)")
        ->check(whole_number(1, 4096));
    data->add_option("--seconds", options.seconds, "time for each row (default 3)")->check(number(0.01, 3600));
    data->add_option("--folder", options.folder, "where the files go (default: bench-data and time, among the runs)");
    data->add_flag("--json", options.json, "as JSON");
    data->footer(
        "\nExamples:\n  hyperion bench data --tokenizer gpt2.tiktoken --tokenizer ./Qwen2.5-0.5B --text book.txt\n"
        "  hyperion bench data --set sets/wikitext");
  };
  add_hardware_bench(bench);
  bench.add<BenchMemoryOptions>("memory", "what each memory technique saves and costs on one workload", memory_flags,
                                bench_memory_command);
  bench.add<BenchDataOptions>("data", "how fast text becomes token ids, and prepared sets become batches", data_flags,
                              bench_data_command);
  add_timing_benches(bench);
  add_comm_benches(bench);
  add_pipeline_bench(bench);
  add_baseline_commands(bench);
}

void add_presets_command(Commands& commands) {
  const auto add_flags = [](CLI::App* presets, NoOptions&) { presets->footer("\nExample:\n  hyperion presets"); };
  commands.add<NoOptions>("presets", "the models a recipe can name", add_flags,
                          [](const NoOptions&) { return presets_command(); });
}

}  // namespace hyperion::cli
