#include "hyperion/optim/loss_scale.h"

#include <gtest/gtest.h>

namespace hyperion::optim {
namespace {

TEST(LossScale, halves_on_overflow_and_doubles_after_enough_good_steps_in_a_row) {
  LossScale scale(1024);
  for (int64_t i = 0; i < LossScale::kGrowAfter - 1; ++i) scale.told(false);
  EXPECT_EQ(scale.scale(), 1024);
  scale.told(true);
  EXPECT_EQ(scale.scale(), 512);
  for (int64_t i = 0; i < LossScale::kGrowAfter - 1; ++i) scale.told(false);
  EXPECT_EQ(scale.scale(), 512) << "an overflow starts the count again";
  scale.told(false);
  EXPECT_EQ(scale.scale(), 1024);
  EXPECT_EQ(scale.good_steps(), 0);
}

TEST(LossScale, goes_on_from_what_was_saved) {
  LossScale one(64), other(2);
  for (int i = 0; i < 7; ++i) one.told(false);
  other.restore(one.scale(), one.good_steps());
  for (int64_t i = 0; i < LossScale::kGrowAfter - 7; ++i) one.told(false), other.told(false);
  EXPECT_EQ(other.scale(), 128);
  EXPECT_EQ(one.scale(), other.scale());
}

}  // namespace
}  // namespace hyperion::optim
