#include <algorithm>
#include <cstdio>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/cli/commands.h"
#include "hyperion/hub/cache.h"
#include "hyperion/interop/hugging_face.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/interop/peft.h"

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

}  // namespace

int export_command(const ExportOptions& options) {
  auto& files = base::real_files();
  auto opened = interop::open_model(files, options.model, c10::kCPU, {}, interop::WeightForm::as_kept);
  if (!options.adapter.empty() && !opened.model->adapters().empty())
    throw base::ConfigError(base::format("{} has an adapter of its own", options.model),
                            "export it merged first, then add the other");
  if (!options.adapter.empty()) interop::add_adapter(files, options.adapter, opened, "adapter");
  auto& adapters = opened.model->adapters();
  if (options.as_adapter) {
    if (adapters.empty()) throw base::ConfigError("--as-adapter needs an adapter", "name one with --adapter");
    const std::string& base_model = opened.base_model.empty() ? options.model : opened.base_model;
    const std::string name = hub::repo_name_of(base_model);  // a folder of the cache means nothing elsewhere
    interop::write_adapter(files, *opened.model, adapters.names().front(), name.empty() ? base_model : name,
                           opened.folder, options.folder);
    if (opened.trained_quantized)
      base::log_info("the adapter was trained beside 4-bit weights (nf4); its folder cannot say so: --quantize nf4");
    print_files(files, options.folder);
    return 0;
  }
  if (!adapters.empty()) adapters.merge(adapters.names().front());
  interop::export_hugging_face(files, *opened.model, opened.config, opened.folder, options.folder, opened.ends);
  if (opened.trained_quantized)
    base::log_info("the adapter was trained beside 4-bit weights (nf4); the base itself is exported whole");
  print_files(files, options.folder);
  return 0;
}

}  // namespace hyperion::cli
