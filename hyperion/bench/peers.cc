#include "hyperion/bench/peers.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/words.h"
#include "hyperion/bench/child.h"
#include "hyperion/bench/random_training.h"
#include "hyperion/host/programs.h"

namespace hyperion::bench {
namespace {

constexpr const char* kForms[] = {"packed", "padded"};

void fill_row(TrainRow& row, const base::Json& line) {
  row.failed = line.value("error", "");
  if (!row.failed.empty()) return;
  row.first_step = line.at("first_step_s");
  row.step = profile::spread_of(line.at("blocks_s").get<std::vector<double>>());
  row.ran_as = line.at("ran_as");
  row.parameters = line.at("parameters"), row.trained = line.at("trained");
  row.peak = line.at("peak_bytes");
  row.first_loss = line.at("first_loss");
  row.last_loss = line.at("last_loss");
}

}  // namespace

const std::vector<std::string>& all_peer_modes() {
  static const std::vector<std::string> list = {"eager",        "compile",        "compile+graphs", "eager+packed",
                                                "eager+padded", "compile+packed", "compile+padded"};
  return list;
}

std::vector<std::string> peer_modes(const train::RunConfig& config, const std::vector<std::string>& asked) {
  const bool documents = packs_documents(config);
  std::vector<std::string> list;
  const auto add = [&](const std::string& mode) {
    const auto& all = all_peer_modes();
    if (std::find(all.begin(), all.end(), mode) != all.end() && std::find(list.begin(), list.end(), mode) == list.end())
      list.push_back(mode);
  };
  for (const auto& mode : asked) {
    const auto form =
        std::find_if(std::begin(kForms), std::end(kForms), [&](const char* f) { return mode.ends_with(f); });
    if (form != std::end(kForms)) {
      add(documents ? mode : mode.substr(0, mode.rfind('+')));
    } else if (!documents) {
      add(mode);
    } else {
      for (const char* each : kForms) add(mode + "+" + each);
    }
  }
  return list;
}

void check_peers(const train::RunConfig& config, const std::vector<std::string>& asked) {
  const auto& lora = config.lora;
  if (lora.rank > 0 && (!nn::config_of(lora).targets.all || lora.dropout > 0 || !lora.modules_to_save.empty()))
    throw base::ConfigError("the peers put adapters beside all linear layers, without dropout, and train nothing else",
                            "leave --peers out, or lora.targets, lora.dropout and lora.modules_to_save");
  if (peer_modes(config, asked).empty())
    throw base::ConfigError("on documents no peer runs as compile+graphs", "use --peer-modes eager,compile");
}

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
