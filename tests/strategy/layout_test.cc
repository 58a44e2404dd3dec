#include "hyperion/strategy/layout.h"

#include <gtest/gtest.h>

#include "hyperion/base/error.h"

namespace hyperion::strategy {
namespace {

TEST(Layout, reads_what_it_writes) {
  for (const char* text : {"dp=1", "dp=4", "dp=2x3", "pp=2,dp=2,tp=2", "pp=2,dp=2x2,cp=2,tp=2,ep=4"})
    EXPECT_EQ(parse_layout(text).text(), text);
}

TEST(Layout, counts_processes_without_experts) {
  const auto layout = parse_layout("dp=2x3,tp=2,ep=6");
  EXPECT_EQ(layout.dp(), 6);
  EXPECT_EQ(layout.processes(), 12);
  EXPECT_EQ(layout.ep, 6);
}

TEST(Layout, refuses_what_cannot_be_meant) {
  for (const char* text : {"", "dp", "dp=", "dp=0", "dp=-1", "dp=2y", "dp=2x", "dp=x2", "dp=2x2x2", "dp=2,dp=2", "zz=2",
                           "dp=2,", "dp=99999999999999999999"})
    EXPECT_THROW(parse_layout(text), base::ConfigError) << text;
}

}  // namespace
}  // namespace hyperion::strategy
