// `hyperion compare`: training runs side by side, or two results of a bench.
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace hyperion::cli {

struct CompareOptions {
  std::vector<std::string> names;
  std::string fail_over, html;  // fail_over empty: 3%
  bool judge_once = false, json = false;
};
void add_compare_command(CLI::App& app, CompareOptions& options);
int compare_command(const CompareOptions& options);

}  // namespace hyperion::cli
