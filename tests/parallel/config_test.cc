#include "hyperion/parallel/config.h"

#include <gtest/gtest.h>

#include "hyperion/base/config.h"
#include "hyperion/base/error.h"
#include "tests/base/support_child.h"

namespace hyperion::parallel {
namespace {

using base::test::error_of;

std::string refusal(const ParallelConfig& config, int64_t processes) {
  return error_of<base::ConfigError>([&] { layout_of(config, processes); });
}

TEST(ParallelSettings, zeropp_is_read_into_flags_and_written_as_it_was) {
  ParallelConfig config;
  base::Settings settings;
  describe(settings, config);
  EXPECT_TRUE(config.zeropp.empty());
  EXPECT_EQ(settings.at("parallel.zeropp").text(), "\"\"");
  settings.read_toml("[parallel]\nzero = 3\nzeropp = \"grads,weights\"\n", "r.toml");
  EXPECT_TRUE(config.zeropp.weights() && config.zeropp.grads() && config.zeropp.nodes());
  EXPECT_FALSE(config.zeropp.secondary() || config.zeropp.empty());
  EXPECT_EQ(settings.at("parallel.zeropp").text(), "\"grads,weights\"");
  settings.set("parallel.zeropp", "weights", "--zeropp");
  EXPECT_FALSE(config.zeropp.nodes() || config.zeropp.grads());
  settings.set("parallel.zeropp", "", "--zeropp");
  EXPECT_TRUE(config.zeropp.empty());
}

TEST(ParallelSettings, a_word_that_zeropp_has_not_is_refused) {
  EXPECT_EQ(error_of<base::ConfigError>([] { ZeroPlusPlus("weights,gradients"); }),
            "error: parallel.zeropp = \"weights,gradients\": \"gradients\" is none of weights, secondary and grads\n"
            "hint: name any of them with commas between\n");
  EXPECT_NE(error_of<base::ConfigError>([] { ZeroPlusPlus(",weights"); }), "");
  EXPECT_EQ(error_of<base::ConfigError>([] { ZeroPlusPlus("weights,"); }), "");
}

TEST(ParallelSettings, zeropp_is_a_form_of_zero_3) {
  ParallelConfig config;
  config.zeropp = ZeroPlusPlus("secondary"), config.wire = Wire::bf16, config.zero = 2;
  EXPECT_EQ(refusal(config, 4),
            "error: parallel.zeropp = \"secondary\" is a form of parallel.zero = 3, with neither same_bits nor a wire "
            "of its own\nhint: add --zero 3 --parallel.wire=own, or go without it: --parallel.zeropp=\n");
  config.wire = Wire::own, config.zero = 3;
  EXPECT_EQ(refusal(config, 4), "");
  config.node_size = 3;
  EXPECT_NE(refusal(config, 4).find("parallel.node_size = 3 does not divide 4 processes"), std::string::npos);
  config.zeropp = ZeroPlusPlus("weights");  // cares for no machines
  EXPECT_EQ(refusal(config, 4), "");
}

TEST(ParallelSettings, same_bits_go_with_stages_and_not_with_shards) {
  const auto refused = [](const std::string& layout, int64_t processes) {
    ParallelConfig config;
    config.same_bits = true, config.layout = layout;
    return refusal(config, processes);
  };
  EXPECT_EQ(refused("pp=3,dp=2", 6), "");
  EXPECT_EQ(
      refused("pp=2,tp=2,dp=2", 8),
      "error: parallel.layout = \"pp=2,tp=2,dp=2\" cannot be had with parallel.same_bits: of a layer that tp cuts, "
      "parts of a product are added up in another order\nhint: use --parallel pp=2,dp=4, or leave "
      "parallel.same_bits out\n");
  EXPECT_NE(refused("tp=3", 3).find("use --parallel pp=3"), std::string::npos);
  EXPECT_NE(refused("pp=2,dp=2x2", 8).find("hint: use pp=2,dp=4"), std::string::npos);
}

}  // namespace
}  // namespace hyperion::parallel
