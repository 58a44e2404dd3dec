#include <cstdio>

#include "hyperion/cli/commands.h"
#include "hyperion/interop/hugging_face.h"
#include "hyperion/interop/open_model.h"

namespace hyperion::cli {

int export_command(const std::string& model, const std::string& folder) {
  auto& files = base::real_files();
  auto opened = interop::open_model(files, model, c10::kCPU);
  interop::export_hugging_face(files, *opened.model, opened.config, opened.folder, folder);
  std::printf("%s: config.json, model.safetensors\n", folder.c_str());
  return 0;
}

}  // namespace hyperion::cli
