#include "hyperion/bench/startup.h"

#include <gtest/gtest.h>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/bench/figures.h"

namespace hyperion::bench {
namespace {

TEST(StartupBench, a_first_step_is_split_into_stages) {
  StartupOptions options;
  options.workload = "tiny-gpt2", options.device = "cpu";
  const double begun = base::real_clock().unix_seconds() - 5;
  const auto startup = first_step(options, begun);
  EXPECT_GE(startup.load, 5);
  EXPECT_GT(startup.model, 0);
  EXPECT_GT(startup.step, 0);
  EXPECT_NEAR(startup.total(), base::real_clock().unix_seconds() - begun, 1);
}

TEST(StartupBench, a_process_that_fails_is_an_error) {
  StartupOptions options;
  options.workload = "tiny-gpt2", options.device = "cpu";
  EXPECT_THROW(run_startup_bench(options, {"--gtest_filter=none", "--gtest_list_tests=no"}), std::exception);
  options.workload = "tiny";
  EXPECT_THROW(run_startup_bench(options, {}), base::ConfigError);
}

TEST(StartupBench, the_total_is_a_figure) {
  const auto outcome = startup_outcome({"w", "graph", "bf16", "CPU", {{1, 2, 3, 4}, {1, 2, 3, 6}, {1, 2, 3, 5}}});
  const auto figures = read_figures(outcome.json, "startup.json");
  ASSERT_EQ(figures.list.size(), 5u);
  EXPECT_DOUBLE_EQ(*figures.list[4].value, 11);
  EXPECT_NE(outcome.table.find("11.000"), std::string::npos);
}

}  // namespace
}  // namespace hyperion::bench
