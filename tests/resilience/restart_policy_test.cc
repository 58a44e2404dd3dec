// When a job that failed is started again, and when that is given up.
#include "hyperion/resilience/restart_policy.h"

#include <gtest/gtest.h>

namespace hyperion::resilience {
namespace {

JobEnd failed_with(int code, double seconds = 1) { return {code, true, "rank 1 of 2 failed", seconds}; }

TEST(RestartPolicy, waits_longer_while_the_job_gets_no_further_and_less_once_it_does) {
  RestartPolicy policy({.most = 100, .first_wait = 1, .longest_wait = 5});
  const Standing at_7{5, 7};
  EXPECT_EQ(policy.after(failed_with(1), at_7).wait, 1);
  EXPECT_EQ(policy.after(failed_with(137), at_7).wait, 2);
  EXPECT_EQ(policy.after(failed_with(1), at_7).wait, 4);
  EXPECT_EQ(policy.after(failed_with(137), at_7).wait, 5);
  EXPECT_EQ(policy.after(failed_with(1), Standing{5, 8}).wait, 1);
  EXPECT_EQ(policy.restarts(), 5);
}

TEST(RestartPolicy, gives_up_what_fails_alike_at_one_step) {
  RestartPolicy policy({.most = 100});
  EXPECT_TRUE(policy.after(failed_with(1), Standing{5, 7}).again);
  EXPECT_TRUE(policy.after(failed_with(1), Standing{5, 7}).again);
  const auto third = policy.after(failed_with(1), Standing{5, 7});
  EXPECT_FALSE(third.again);
  EXPECT_EQ(third.why_not, "it failed 3 times in a row with exit code 1 and got no further than step 7: given up");
}

TEST(RestartPolicy, does_not_give_up_what_gets_a_step_further_each_time) {
  RestartPolicy policy({.most = 100});
  for (int64_t step = 0; step < 100; ++step) EXPECT_TRUE(policy.after(failed_with(1), Standing{0, step}).again) << step;
  EXPECT_FALSE(policy.after(failed_with(1), Standing{0, 100}).again) << "the budget is for the whole job";
}

TEST(RestartPolicy, knows_no_steps_of_other_programs_and_takes_a_minute_for_progress) {
  RestartPolicy policy({.most = 20, .first_wait = 1, .longest_wait = 60});
  for (const double wait : {1, 2, 4, 8, 16}) EXPECT_EQ(policy.after(failed_with(1), {}).wait, wait);
  EXPECT_EQ(policy.after(failed_with(1, 61), {}).wait, 1);
}

TEST(RestartPolicy, does_not_repeat_an_error_of_usage) {
  RestartPolicy policy({.most = 20});
  const auto decision = policy.after(failed_with(2), Standing{});
  EXPECT_FALSE(decision.again);
  EXPECT_NE(decision.why_not.find("has to be changed first"), std::string::npos);
}

}  // namespace
}  // namespace hyperion::resilience
