#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <cstdio>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/cli/commands.h"
#include "hyperion/cli/text_flags.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/usage.h"
#include "hyperion/hub/cache.h"
#include "hyperion/interop/base_weights.h"
#include "hyperion/interop/hugging_face.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/interop/peft.h"
#include "hyperion/train/config.h"

namespace hyperion::cli {
namespace {

void print_files(base::FileSystem& files, const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& path : files.list(folder)) names.push_back(path.filename().string());
  std::sort(names.begin(), names.end());
  std::string line;
  for (const auto& name : names) line += (line.empty() ? "" : ", ") + name;
  std::printf("%s: %s\n", folder.c_str(), line.c_str());
}

// Merged, one such value would spread over a whole matrix.
void expect_finite(nn::Adapters& adapters, const std::string& place) {
  for (const auto& adapter : adapters.names())
    for (const auto& [name, tensor] : adapters.parameters(adapter))
      if (!at::isfinite(tensor).all().item<bool>())
        throw base::CorruptError(base::format("the adapter of {} holds values that are not finite: {}", place, name),
                                 "export an earlier checkpoint, or train it anew with a lower optim.lr");
}

}  // namespace

int export_command(const ExportOptions& options) {
  auto& files = base::real_files();
  const auto open = options.adapter.empty() ? interop::open_model : interop::open_beneath;
  auto opened = open(files, options.model, c10::kCPU, {}, interop::WeightForm::as_kept);
  if (!options.adapter.empty()) interop::add_adapter(files, options.adapter, opened, "adapter");
  auto& adapters = opened.model->adapters();
  expect_finite(adapters, options.adapter.empty() ? options.model : options.adapter);
  if (options.as_adapter) {
    if (adapters.empty()) throw base::ConfigError("--as-adapter needs an adapter", "name one with --adapter");
    std::string base_model = opened.base_model.empty() ? options.model : opened.base_model;
    const base::Path base_run = interop::checkpoint_folder(files, base_model);
    if (!base_run.empty()) base_model = interop::fixed_model(files, base_model);
    const std::string name = hub::repo_name_of(base_model);  // a folder of the cache means nothing elsewhere
    interop::write_adapter(
        files, *opened.model, options.folder,
        {adapters.names().front(), name.empty() ? base_model : name, opened.folder, opened.base_folder});
    if (!base_run.empty())
      base::log_info(
          base::format("its base is a run, which PEFT cannot read: export that merged (hyperion export {} "
                       "--to DIR), and name it as base_model_name_or_path",
                       base_model));
    if (opened.trained_quantized && options.adapter.empty())
      base::log_info("the adapter was trained beside 4-bit weights (nf4); its folder cannot say so: --quantize nf4");
    print_files(files, options.folder);
    return 0;
  }
  const auto rounding = adapters.rounding();
  if (!adapters.empty()) adapters.merge(adapters.names().front());
  interop::export_hugging_face(files, *opened.model, options.folder,
                               {opened.config, opened.folder, opened.ends, opened.base_folder});
  if (rounding)
    base::log_info(
        base::format("the adapter is in {}; merged, it is rounded to {}, the type of the base's files. "
                     "--as-adapter writes it as it is",
                     train::precision_name(rounding->from), train::precision_name(rounding->to)));
  if (opened.trained_quantized)
    base::log_info("the adapter was trained beside 4-bit weights (nf4); the base itself is exported whole");
  print_files(files, options.folder);
  return 0;
}

void add_export_command(Commands& commands) {
  const auto add_flags = [](CLI::App* out, ExportOptions& options) {
    out->add_option("MODEL", options.model, kModelMeaning)->required();
    out->add_option("--to", options.folder, "the folder to write; must not exist")->required()->check(not_empty());
    out->add_option("--adapter", options.adapter, "a PEFT folder, merged into the model's weights")->check(not_empty());
    out->add_flag("--as-adapter", options.as_adapter, "write the adapter alone, as a PEFT folder");
    out->footer(
        "\nExamples:\n  hyperion export quickstart --to ./quickstart-hf\n  hyperion export ./llama --adapter ./mine "
        "--to "
        "./llama-mine");
  };
  commands.add<ExportOptions>("export", "write a model as a Hugging Face folder", add_flags, export_command);
}

}  // namespace hyperion::cli
