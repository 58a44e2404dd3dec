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

int export_command(const ExportOptions& options) {
  auto& files = base::real_files();
  auto opened = interop::open_model(files, options.model, c10::kCPU, {}, interop::WeightForm::as_kept);
  if (!options.adapter.empty() && !opened.model->adapters().empty())
    throw base::ConfigError(base::format("{} has an adapter of its own", options.model),
                            "export it merged first, then add the other");
  if (!options.adapter.empty()) {
    interop::fit_to_adapter(files, options.adapter, opened.model, opened.config);
    interop::read_adapter(files, options.adapter, *opened.model, "adapter");
  }
  auto& adapters = opened.model->adapters();
  if (options.as_adapter) {
    if (adapters.empty()) throw base::ConfigError("--as-adapter needs an adapter", "name one with --adapter");
    const std::string& base_model = opened.base_model.empty() ? options.model : opened.base_model;
    const std::string name = hub::repo_name_of(base_model);  // a folder of the cache means nothing elsewhere
    interop::write_adapter(files, *opened.model, adapters.names().front(), name.empty() ? base_model : name,
                           options.folder);
    if (opened.trained_quantized)
      base::log_info("the adapter was trained beside 4-bit weights (nf4); its folder cannot say so: --quantize nf4");
    std::printf("%s: adapter_config.json, adapter_model.safetensors\n", options.folder.c_str());
    return 0;
  }
  if (!adapters.empty()) adapters.merge(adapters.names().front());
  interop::export_hugging_face(files, *opened.model, opened.config, opened.folder, options.folder, opened.ends);
  if (opened.trained_quantized)
    base::log_info("the adapter was trained beside 4-bit weights (nf4); the base itself is exported whole");
  std::printf("%s: config.json, model.safetensors\n", options.folder.c_str());
  return 0;
}

}  // namespace hyperion::cli
