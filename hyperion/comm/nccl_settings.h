// Settings of NCCL and RCCL, which both read from the environment when the first group is made. Free of torch.
#pragma once
#include <string>
#include <vector>

namespace hyperion::base {
class Settings;
}

namespace hyperion::comm {

struct NcclConfig {
  std::string preset = "none", p2p = "own", collnet = "own", async_errors = "own", debug = "own", interface;
  std::vector<std::string> variables;  // "NCCL_ALGO=Ring"
};
void describe(base::Settings& settings, NcclConfig& config);

struct NcclVariable {
  std::string name, value;
  std::string origin;  // the setting it comes from: "nccl.preset"
};

// What the config asks for, each name once. `slingshot`: the machine has such a network, which the preset also sets up.
// Throws ConfigError for a variable that is none of theirs.
std::vector<NcclVariable> nccl_variables(const NcclConfig& config, bool slingshot);

// Puts them into this process's environment where nothing stands there yet: what the user exported stays. Returns what
// was done, for people; empty where nothing was asked for. Before the first GPU is touched and the first thread starts.
std::string apply(const NcclConfig& config);

// What doctor shows: variables of theirs that are set, in alphabetical order.
std::vector<std::string> nccl_variables_set(const char* const* environment);

bool has_slingshot(const std::string& interfaces = "/sys/class/net");

}  // namespace hyperion::comm
