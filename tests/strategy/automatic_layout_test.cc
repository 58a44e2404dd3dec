#include "hyperion/strategy/automatic_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace hyperion::strategy {
namespace {

std::string best(int64_t processes, const LayoutHints& hints = {.tokens = 1024}) {
  return automatic_layouts(processes, hints).front().text();
}

TEST(AutomaticLayout, is_of_two_to_sixty_four_processes_by_rules) {
  EXPECT_EQ(best(2), "pp=2");
  EXPECT_EQ(best(3), "dp=3");
  EXPECT_EQ(best(4), "pp=2,tp=2");
  EXPECT_EQ(best(6), "pp=2,dp=3");
  EXPECT_EQ(best(8), "pp=2,dp=2,tp=2");
  EXPECT_EQ(best(64), "pp=2,dp=16,tp=2");
  EXPECT_EQ(best(16, {.tokens = 32768}), "pp=2,dp=2,cp=2,tp=2");
  EXPECT_EQ(best(8, {.tokens = 1024, .experts = 60}), "pp=2,dp=2,tp=2,ep=2");
  EXPECT_EQ(best(64, {.tokens = 1024, .experts = 60}), "pp=2,dp=16,tp=2,ep=4");
  EXPECT_EQ(best(32, {.tokens = 65536, .experts = 8}), "pp=2,dp=4,cp=2,tp=2,ep=8");
}

TEST(AutomaticLayout, lays_out_every_process_and_ends_with_dp_alone) {
  for (int64_t processes = 1; processes <= 64; ++processes) {
    const auto all = automatic_layouts(processes, {.tokens = 32768, .experts = 8});
    for (const auto& layout : all) {
      EXPECT_EQ(layout.processes(), processes);
      EXPECT_EQ(layout.dp() * layout.cp % layout.ep, 0);
    }
    EXPECT_EQ(all.back().dp(), processes);
    EXPECT_EQ(all.back().ep, 1);
  }
}

}  // namespace
}  // namespace hyperion::strategy
