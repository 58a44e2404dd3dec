#include <cstdio>
#include <filesystem>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/bench/data.h"
#include "hyperion/bench/memory.h"
#include "hyperion/cli/commands.h"
#include "hyperion/cli/resolve.h"
#include "hyperion/cli/result_folder.h"
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

}  // namespace hyperion::cli
