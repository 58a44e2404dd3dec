#include "hyperion/bench/peers.h"

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/words.h"
#include "hyperion/bench/child.h"
#include "hyperion/host/programs.h"

namespace hyperion::bench {
namespace {

void fill_row(TrainRow& row, const base::Json& line) {
  row.failed = line.value("error", "");
  if (!row.failed.empty()) return;
  row.first_step = line.at("first_step_s");
  row.step = profile::spread_of(line.at("blocks_s").get<std::vector<double>>());
  row.parameters = line.at("parameters");
  row.peak = line.at("peak_bytes");
  row.first_loss = line.at("first_loss");
  row.last_loss = line.at("last_loss");
}

}  // namespace

base::Path peers_script() {
  const base::Path name = "script/peers/torch_peers.py";
  if (std::filesystem::exists(name)) return name;
  for (auto folder = base::Path(host::own_program()).parent_path(); folder != folder.root_path();
       folder = folder.parent_path())
    if (std::filesystem::exists(folder / name)) return folder / name;
  return {};
}

TrainRow run_peer(const Workload& workload, const train::RunConfig& config, const std::string& mode, int64_t steps,
                  const std::string& device) {
  TrainRow row;
  row.workload = workload.name, row.mode = "torch " + mode, row.precision = base::word_of(config.train.precision);
  row.failed = "script/peers/torch_peers.py is not here; run from the repository";
  const auto script = peers_script();
  if (script.empty()) return row;
  row.failed = "it printed no result";
  const auto read = [&](std::string_view line) {
    if (!line.starts_with('{') || row.failed.empty()) return;
    try {
      fill_row(row, base::Json::parse(line));
    } catch (const base::Json::exception&) {
      row.failed = base::format("what it printed is no result: {}", line.substr(0, 80));
    }
  };
  const char* python = std::getenv("HYPERION_PYTHON");
  try {
    const int code =
        run_child({python != nullptr ? python : "python3", script.string(), "--spec", workload_json(workload, config),
                   "--mode", mode, "--steps", base::format("{}", steps), "--device", device},
                  read);
    if (code != 0 && !row.failed.empty()) row.failed += base::format(" (exit code {})", code);
  } catch (const base::Interrupted&) {
    throw;
  } catch (const base::Error& error) {  // our own figures stand
    row.failed = error.what();
  }
  return row;
}

}  // namespace hyperion::bench
