#include "hyperion/resilience/node_plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace hyperion::resilience {
namespace {

TEST(NodePlan, travels_as_json_with_any_bytes_in_its_words) {
  std::string all;
  for (int byte = 1; byte < 256; ++byte) all += static_cast<char>(byte);
  NodePlan plan;
  plan.node = 3, plan.first_rank = 8, plan.ranks = 4, plan.world = 16, plan.port = 29500;
  plan.master = "gpu07", plan.job = "launch-1", plan.secret = "secret", plan.bind = "cores";
  plan.command = {"train", all, "caf\xe9", "\u00fc\u4e2d", ""};
  plan.environment = {"HYPERION_X=" + all};
  const std::string line = to_json(plan).dump();
  EXPECT_EQ(line.find('\n'), std::string::npos) << "it is a line";
  const NodePlan there = node_plan_from_json(base::parse_json(line, "a plan"));
  EXPECT_EQ(there.command, plan.command);
  EXPECT_EQ(there.environment, plan.environment);
  EXPECT_EQ(there.master + there.job + there.secret + there.bind, "gpu07launch-1secretcores");
  EXPECT_EQ(there.node * 1000 + there.first_rank * 100 + there.ranks * 10 + there.world, 3856);
  EXPECT_EQ(there.port, 29500);
}

}  // namespace
}  // namespace hyperion::resilience
