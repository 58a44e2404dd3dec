// Experts that several processes share out train as those of one process that has them all, in every layout.
#include <gtest/gtest.h>

#include "hyperion/base/format.h"
#include "tests/multi_rank/support_outcomes.h"

namespace hyperion::testing {
namespace {

constexpr double kLimit = 1e-4;

TEST(Experts, shared_out_train_as_those_of_one) {
  expect_as_alone(
      2,
      {"moe layout=dp=2,ep=2 steps=10", "qwen_moe layout=dp=2,ep=2 capacity=1.25 zero=3 accumulate=2 steps=10",
       "moe layout=cp=2,ep=2 steps=10 recompute=full", "moe_lora layout=dp=2,ep=2 steps=10 zero=1",
       "moe_qlora layout=dp=2,ep=2 steps=10", "moe_qlora layout=dp=2,ep=2 steps=10 zero=3 accumulate=2",
       "moe layout=dp=2,ep=2 precision=fp8 steps=10",
       "qwen_moe layout=cp=2,ep=2 precision=fp8 steps=10 recompute=full"},
      {}, kLimit);
  expect_as_alone(4,
                  {"qwen_moe layout=dp=4,ep=4 steps=10", "moe layout=dp=4,ep=2 zero=1 accumulate=2 steps=10",
                   "moe layout=pp=2,dp=2,ep=2 accumulate=2 steps=10", "moe layout=dp=2,tp=2,ep=2 steps=10",
                   "moe layout=pp=2,dp=2,ep=2 accumulate=4 schedule=zbv layers=4 steps=10",
                   "qwen_moe layout=pp=2,cp=2,ep=2 accumulate=2 schedule=zb-h1 steps=10 zero=1",
                   "moe_qlora layout=pp=2,dp=2,ep=2 accumulate=2 steps=10",
                   "moe_qlora layout=dp=2,tp=2,ep=2 steps=10 width=128 inner=128 zero=3"},
                  {}, kLimit);
}

// script/test-matrix runs these.
TEST(Experts, DISABLED_matrix) {
  for (const int ranks : {2, 4, 8}) {
    Cases layouts;
    if (ranks == 2)
      layouts = {"dp=2,ep=2", "dp=2,ep=2 accumulate=2",   "dp=2,ep=2 masked=1",
                 "cp=2,ep=2", "dp=2,ep=2 recompute=full", "dp=2,ep=2 recompute=selective"};
    if (ranks == 4)
      layouts = {"dp=4,ep=4",
                 "dp=4,ep=2",
                 "dp=4,ep=2 masked=1 accumulate=2",
                 "dp=2,tp=2,ep=2",
                 "dp=2,tp=2,ep=2 sequence=1",
                 "dp=2,cp=2,ep=2",
                 "dp=2,cp=2,ep=4",
                 "pp=2,dp=2,ep=2 accumulate=2",
                 "pp=2,cp=2,ep=2 accumulate=2"};
    if (ranks == 8)
      layouts = {"pp=2,dp=4,ep=2 accumulate=2", "dp=4,tp=2,ep=4", "dp=4,cp=2,ep=2", "dp=8,ep=4",
                 "pp=2,dp=2,tp=2,ep=2 accumulate=2 sequence=1"};
    for (const std::string family : {"moe seed=2", "qwen_moe seed=3", "moe_lora seed=3"}) {
      Cases cases;
      for (const auto& layout : layouts)
        for (const std::string state :
             {"zero=0", "zero=1", "zero=2", "zero=3", "zero=0 capacity=1.25", "zero=3 capacity=1.25"})
          if (layout.find("cp=") == layout.npos || state.find("capacity") == state.npos)
            cases.push_back(base::format("{} heads=4 layout={} {} steps=10", family, layout, state));
      if (family != "moe_lora seed=3")
        cases.push_back(base::format("{} heads=4 layout={} precision=bf16 steps=10", family, layouts[0]));
      expect_as_alone(ranks, cases, {}, kLimit);
    }
  }
}

TEST(Experts, DISABLED_of_all_five_axes_on_sixteen_processes_are_those_of_one) {
  expect_as_alone(16,
                  {"moe heads=4 layout=pp=2,dp=2,cp=2,tp=2,ep=2 accumulate=2 zero=1 steps=10",
                   "qwen_moe heads=4 layout=pp=2,dp=2,cp=2,tp=2,ep=4 accumulate=2 zero=3 steps=10"},
                  {}, kLimit);
}

// Of rows without a capacity, as even as routers are before they have learned; adapters so small that what fills up
// their pieces shows are cut by zero 0 and 1 alone.
TEST(Experts, hold_and_send_what_a_plan_says) {
  Cases cases;
  const auto add = [&](const char* family, const char* layout, const Cases& zeros) {
    for (const auto& zero : zeros)
      cases.push_back(base::format("{} heads=4 layout={} zero={} steps=2", family, layout, zero));
  };
  for (const char* layout :
       {"dp=4,ep=2 accumulate=2", "pp=2,dp=2,ep=2 accumulate=2 recompute=full", "dp=2,tp=2,ep=2"}) {
    add("moe batch=96 seed=3", layout, {"0", "3"});
    add("qwen_moe capacity=1.25", layout, {"0", "1", "2", "3"});
    add("moe_lora capacity=1.5", layout, {"0", "1"});
  }
  add("qwen_moe capacity=1.25", "dp=4,ep=4", {"0", "1", "2", "3"});
  expect_as_planned(train(4, cases));
}

}  // namespace
}  // namespace hyperion::testing
