#include "hyperion/comm/nccl_settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "hyperion/base/config.h"
#include "hyperion/base/error.h"

namespace hyperion::comm {
namespace {

std::string value_of(const std::vector<NcclVariable>& list, const std::string& name) {
  for (const auto& variable : list)
    if (variable.name == name) return variable.value;
  return "";
}

TEST(NcclSettings, nothing_is_set_unless_asked_for) { EXPECT_TRUE(nccl_variables({}, true).empty()); }

TEST(NcclSettings, each_setting_is_its_variable) {
  NcclConfig config;
  base::Settings settings;
  describe(settings, config);
  settings.read_toml(
      "[nccl]\np2p = \"PHB\"\ncollnet = \"on\"\nasync_errors = \"clean_up\"\ndebug = \"WARN\"\ninterface = \"eth\"\n"
      "variables = [\"NCCL_ALGO=Ring\", \"FI_PROVIDER=cxi\"]\n",
      "recipe.toml");
  const auto list = nccl_variables(config, false);
  EXPECT_EQ(value_of(list, "NCCL_P2P_LEVEL"), "PHB");
  EXPECT_EQ(value_of(list, "NCCL_COLLNET_ENABLE"), "1");
  EXPECT_EQ(value_of(list, "TORCH_NCCL_ASYNC_ERROR_HANDLING"), "2");
  EXPECT_EQ(value_of(list, "NCCL_DEBUG"), "WARN");
  EXPECT_EQ(value_of(list, "NCCL_SOCKET_IFNAME"), "eth");
  EXPECT_EQ(value_of(list, "NCCL_ALGO"), "Ring");
  EXPECT_EQ(value_of(list, "FI_PROVIDER"), "cxi");
  EXPECT_EQ(list.size(), 7u);
  config.p2p = NcclP2p::off;
  EXPECT_EQ(value_of(nccl_variables(config, false), "NCCL_P2P_DISABLE"), "1");
}

TEST(NcclSettings, the_preset_sets_up_the_network_only_where_it_is_and_single_settings_beat_it) {
  NcclConfig config;
  config.preset = NcclPreset::mi250x;
  EXPECT_EQ(value_of(nccl_variables(config, true), "NCCL_SOCKET_IFNAME"), "hsn");
  EXPECT_EQ(value_of(nccl_variables(config, true), "NCCL_NET_GDR_LEVEL"), "PHB");
  EXPECT_EQ(value_of(nccl_variables(config, false), "NCCL_SOCKET_IFNAME"), "");
  EXPECT_EQ(value_of(nccl_variables(config, false), "HSA_FORCE_FINE_GRAIN_PCIE"), "1");
  config.interface = "ib0";
  EXPECT_EQ(value_of(nccl_variables(config, true), "NCCL_SOCKET_IFNAME"), "ib0");
}

TEST(NcclSettings, the_preset_has_what_jobs_on_such_nodes_set) {
  NcclConfig config;
  config.preset = NcclPreset::mi250x;
  const auto list = nccl_variables(config, false);
  EXPECT_EQ(value_of(list, "NCCL_COLLNET_ENABLE"), "0");
  EXPECT_EQ(value_of(list, "RCCL_P2P_ENABLE"), "1");
  EXPECT_EQ(value_of(list, "TORCH_NCCL_ASYNC_ERROR_HANDLING"), "0");
  EXPECT_EQ(value_of(list, "TORCH_NCCL_TIMEOUT"), "7200");
  EXPECT_EQ(value_of(list, "RCCL_TIMEOUT"), "7200");
  config.p2p = NcclP2p::off, config.collnet = NcclCollnet::on, config.async_errors = NcclAsyncErrors::clean_up;
  config.variables = {"RCCL_TIMEOUT=60"};
  const auto changed = nccl_variables(config, false);
  EXPECT_EQ(changed.size(), list.size() + 1);
  EXPECT_EQ(value_of(changed, "NCCL_P2P_DISABLE"), "1");
  EXPECT_EQ(value_of(changed, "RCCL_P2P_ENABLE"), "0");
  EXPECT_EQ(value_of(changed, "NCCL_COLLNET_ENABLE"), "1");
  EXPECT_EQ(value_of(changed, "TORCH_NCCL_ASYNC_ERROR_HANDLING"), "2");
  EXPECT_EQ(value_of(changed, "RCCL_TIMEOUT"), "60");
}

TEST(NcclSettings, what_is_none_of_theirs_is_refused) {
  NcclConfig config;
  for (const char* text : {"LD_PRELOAD=x.so", "NCCL_DEBUG", "=1", "PATH=/"}) {
    config.variables = {text};
    EXPECT_THROW(nccl_variables(config, false), base::ConfigError) << text;
  }
}

TEST(NcclSettings, what_the_user_exported_stays) {
  ::setenv("NCCL_ALGO", "Tree", 1);
  ::unsetenv("NCCL_PROTO");
  NcclConfig config;
  config.variables = {"NCCL_ALGO=Ring", "NCCL_PROTO=Simple"};
  const auto done = apply(config);
  EXPECT_STREQ(std::getenv("NCCL_ALGO"), "Tree");
  EXPECT_STREQ(std::getenv("NCCL_PROTO"), "Simple");
  EXPECT_NE(done.find("NCCL_ALGO stays Tree"), std::string::npos) << done;
  EXPECT_NE(done.find("NCCL_PROTO=Simple (nccl.variables)"), std::string::npos) << done;
  ::unsetenv("NCCL_ALGO"), ::unsetenv("NCCL_PROTO");
  const char* environment[] = {"PATH=/bin", "NCCL_DEBUG=INFO", "HSA_XNACK=1", nullptr};
  EXPECT_EQ(nccl_variables_set(environment), (std::vector<std::string>{"HSA_XNACK=1", "NCCL_DEBUG=INFO"}));
}

TEST(NcclSettings, a_slingshot_network_is_known_by_its_interfaces) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "interfaces";
  std::filesystem::create_directories(folder / "eth0");
  EXPECT_FALSE(has_slingshot(folder));
  EXPECT_FALSE(has_slingshot(folder / "none"));
  std::filesystem::create_directories(folder / "hsn0");
  EXPECT_TRUE(has_slingshot(folder));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace hyperion::comm
