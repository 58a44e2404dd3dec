// Settings of NCCL and RCCL, which both read from the environment when the first group is made. Free of torch.
#pragma once
#include <array>
#include <string>
#include <vector>

namespace hyperion::base {
class Settings;
}

namespace hyperion::comm {

enum class NcclPreset { none, mi250x };
constexpr auto words_of(NcclPreset) { return std::array{"none", "mi250x"}; }

// The rest is NCCL's own words: how far apart GPUs may be.
enum class NcclP2p { own, off, loc, nvl, pix, pxb, phb, sys };
constexpr auto words_of(NcclP2p) { return std::array{"own", "off", "LOC", "NVL", "PIX", "PXB", "PHB", "SYS"}; }

enum class NcclCollnet { own, on, off };
constexpr auto words_of(NcclCollnet) { return std::array{"own", "on", "off"}; }

enum class NcclAsyncErrors { own, off, tear_down, clean_up, skip_clean_up };
constexpr auto words_of(NcclAsyncErrors) { return std::array{"own", "off", "tear_down", "clean_up", "skip_clean_up"}; }

enum class NcclDebug { own, version, warn, info, trace };
constexpr auto words_of(NcclDebug) { return std::array{"own", "VERSION", "WARN", "INFO", "TRACE"}; }

struct NcclConfig {
  NcclPreset preset = NcclPreset::none;
  NcclP2p p2p = NcclP2p::own;
  NcclCollnet collnet = NcclCollnet::own;
  NcclAsyncErrors async_errors = NcclAsyncErrors::own;
  NcclDebug debug = NcclDebug::own;
  std::string interface;
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
