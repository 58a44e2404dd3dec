#include "hyperion/comm/nccl_settings.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "hyperion/base/config.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::comm {
namespace {

using base::format;

constexpr const char* kPrefixes[] = {"NCCL_", "RCCL_", "TORCH_NCCL_", "FI_", "CXI_", "HSA_", "GLOO_"};

bool is_theirs(const std::string& name) {
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](const char* prefix) { return name.starts_with(prefix); });
}

// What centres with MI250X nodes tell their users to set. The network's part is for HPE Slingshot.
constexpr std::pair<const char*, const char*> kMi250x[] = {
    {"HSA_FORCE_FINE_GRAIN_PCIE", "1"},  // GPUs reach each other's memory over PCIe
    {"NCCL_NET_GDR_LEVEL", "PHB"},       // the network card reads GPU memory of its own NUMA node
    {"NCCL_CROSS_NIC", "1"},             // rings may use another card on the next node
    {"NCCL_COLLNET_ENABLE", "0"},        // no sums in switches: there are none that do them
    {"RCCL_P2P_ENABLE", "1"},            // the dies of a node reach each other over Infinity Fabric
    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"},
    {"TORCH_NCCL_TIMEOUT", "7200"},  // seconds, and the next
    {"RCCL_TIMEOUT", "7200"},
};
constexpr std::pair<const char*, const char*> kSlingshot[] = {
    {"NCCL_SOCKET_IFNAME", "hsn"},           // all high-speed interfaces, never the management network
    {"FI_MR_CACHE_MONITOR", "userfaultfd"},  // the default one deadlocks with some allocators
    {"FI_CXI_DISABLE_HOST_REGISTER", "1"},   // registering host memory with the GPU stalls large jobs
    {"FI_CXI_DEFAULT_CQ_SIZE", "131072"},    // the default overflows with many ranks
};

}  // namespace

void describe(base::Settings& settings, NcclConfig& config) {
  settings.section("nccl", "NCCL and RCCL between GPUs; own: as the library or the environment has it")
      .choice("preset", config.preset, "a known-good set of variables for these nodes")
      .choice("p2p", config.p2p,
              "how far apart GPUs may be that reach each other's memory: NCCL_P2P_LEVEL, or NCCL_P2P_DISABLE")
      .choice("collnet", config.collnet, "sums in the network's switches: NCCL_COLLNET_ENABLE")
      .choice("async_errors", config.async_errors,
              "what a failed or late collective does: TORCH_NCCL_ASYNC_ERROR_HANDLING")
      .choice("debug", config.debug, "what the library tells: NCCL_DEBUG")
      .text("interface", config.interface, "network interfaces by the beginning of their names: NCCL_SOCKET_IFNAME")
      .list("variables", config.variables, "any other, as NCCL_ALGO=Ring");
}

std::vector<NcclVariable> nccl_variables(const NcclConfig& config, bool slingshot) {
  std::vector<NcclVariable> list;
  const auto set = [&](const std::string& name, const std::string& value, const std::string& origin) {
    const auto found = std::find_if(list.begin(), list.end(), [&](const NcclVariable& v) { return v.name == name; });
    if (found == list.end())
      list.push_back({name, value, origin});
    else
      found->value = value, found->origin = origin;
  };
  if (config.preset == NcclPreset::mi250x) {
    for (const auto& [name, value] : kMi250x) set(name, value, "nccl.preset");
    if (slingshot)
      for (const auto& [name, value] : kSlingshot) set(name, value, "nccl.preset");
  }
  if (config.p2p == NcclP2p::off) {
    set("NCCL_P2P_DISABLE", "1", "nccl.p2p");
    if (config.preset == NcclPreset::mi250x) set("RCCL_P2P_ENABLE", "0", "nccl.p2p");
  }
  if (config.p2p != NcclP2p::off && config.p2p != NcclP2p::own)
    set("NCCL_P2P_LEVEL", base::word_of(config.p2p), "nccl.p2p");
  if (config.collnet != NcclCollnet::own)
    set("NCCL_COLLNET_ENABLE", config.collnet == NcclCollnet::on ? "1" : "0", "nccl.collnet");
  if (config.async_errors != NcclAsyncErrors::own)  // off is 0, and so on
    set("TORCH_NCCL_ASYNC_ERROR_HANDLING",
        std::to_string(static_cast<int>(config.async_errors) - static_cast<int>(NcclAsyncErrors::off)),
        "nccl.async_errors");
  if (config.debug != NcclDebug::own) set("NCCL_DEBUG", base::word_of(config.debug), "nccl.debug");
  if (!config.interface.empty()) set("NCCL_SOCKET_IFNAME", config.interface, "nccl.interface");
  for (const auto& text : config.variables) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (equals == text.npos || !is_theirs(name))
      throw base::ConfigError(
          format("nccl.variables: \"{}\" sets no variable of NCCL, RCCL or the network under them", text),
          "write NAME=VALUE, with a name that begins with NCCL_, RCCL_, TORCH_NCCL_, FI_, CXI_ or HSA_");
    set(name, text.substr(equals + 1), "nccl.variables");
  }
  return list;
}

bool has_slingshot(const std::string& interfaces) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(interfaces, ignored))
    if (entry.path().filename().string().starts_with("hsn")) return true;
  return false;
}

std::string apply(const NcclConfig& config) {
  std::string done;
  for (const auto& [name, value, origin] : nccl_variables(config, has_slingshot())) {
    const char* const there = std::getenv(name.c_str());
    if (there == nullptr) ::setenv(name.c_str(), value.c_str(), 1);
    done += (done.empty() ? "" : ", ") +
            (there == nullptr || there == value
                 ? format("{}={} ({})", name, value, origin)
                 : format("{} stays {}, as the environment has it, not {} ({})", name, there, value, origin));
  }
  return done;
}

std::vector<std::string> nccl_variables_set(const char* const* environment) {
  std::vector<std::string> list;
  for (; environment != nullptr && *environment != nullptr; ++environment)
    if (is_theirs(*environment)) list.emplace_back(*environment);
  std::sort(list.begin(), list.end());
  return list;
}

}  // namespace hyperion::comm
