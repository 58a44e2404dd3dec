#include "hyperion/train/validations.h"

#include <gtest/gtest.h>

namespace hyperion::train {
namespace {

TEST(Validations, know_the_lowest_and_how_long_nothing_was_lower) {
  Validations all;
  for (const auto& [step, loss] : {std::pair<int64_t, double>{1, 3.0}, {2, 2.0}, {3, 2.5}, {4, 2.0}})
    all.add({step, loss}, 0, true);
  EXPECT_TRUE(all.best_is(2));
  EXPECT_EQ(all.waited, 2);
  EXPECT_TRUE(all.over(2));
  EXPECT_FALSE(all.over(3) || all.over(0));
  EXPECT_EQ(all.waited_text(0), "2 validations in a row were not below 2.0000 of step 2");
}

TEST(Validations, lower_by_too_little_is_the_best_and_yet_no_progress) {
  Validations all;
  for (int64_t step = 1; step <= 4; ++step) all.add({step, 2.0 - 0.04 * static_cast<double>(step)}, 0.1, true);
  EXPECT_TRUE(all.best_is(4));
  EXPECT_EQ(all.mark->step, 4) << "three small steps are a large one";
  all.add({5, 1.83}, 0.1, true);
  EXPECT_TRUE(all.best_is(5));
  EXPECT_EQ(all.waited, 1);
}

TEST(Validations, whose_checkpoint_is_not_kept_are_never_the_best) {
  Validations all;
  all.add({1, 1.0}, 0, false);
  EXPECT_FALSE(all.best);
  all.add({2, 2.0}, 0, true);
  EXPECT_TRUE(all.best_is(2));
  EXPECT_EQ(all.waited, 1);
}

}  // namespace
}  // namespace hyperion::train
