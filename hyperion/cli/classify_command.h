// `hyperion classify`.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace hyperion::cli {

struct ClassifyOptions {
  std::string model, device = "auto", quantize, output;  // quantize: none or nf4; empty: as it was trained
  std::vector<std::string> images, adapters;             // adapters: FOLDER or NAME=FOLDER; the first is used
  int64_t top = 5;
  bool json = false;
};
void add_classify_command(CLI::App& app, ClassifyOptions& options);
int classify_command(const ClassifyOptions& options);

}  // namespace hyperion::cli
