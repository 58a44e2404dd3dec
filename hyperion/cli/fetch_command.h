// `hyperion fetch`.
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace hyperion::cli {

struct FetchOptions {
  std::string name;
  std::vector<std::string> only;
  bool set = false, allow_http = false;
};
void add_fetch_command(CLI::App& app, FetchOptions& options);
int fetch_command(const FetchOptions& options);

}  // namespace hyperion::cli
