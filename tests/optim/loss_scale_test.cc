#include "hyperion/optim/loss_scale.h"

#include <gtest/gtest.h>

#include <random>

#include "hyperion/optim/update_math.h"
#include "tests/support/seed.h"

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

TEST(LossScale, a_device_that_decides_by_itself_follows_the_same_rule) {
  std::mt19937 random(static_cast<uint32_t>(testing::seed()));
  for (const double rare : {0.5, 0.01, 0.0003}) {
    LossScale host(0x1p20);
    LossScaleState device{0x1p20f, 0, 0, 0};
    int32_t updates = 0;
    for (int step = 0; step < 50'000; ++step) {
      const bool overflowed = std::uniform_real_distribution<>(0, 1)(random) < rare;
      host.told(overflowed);
      advance_loss_scale(device, overflowed, LossScale::kGrowAfter);
      updates += overflowed ? 0 : 1;
      ASSERT_EQ(static_cast<float>(host.scale()), device.scale) << step;
      ASSERT_EQ(host.good_steps(), device.good) << step;
      ASSERT_EQ(device.skipped, overflowed ? 1 : 0);
    }
    EXPECT_EQ(device.updates, updates);
  }
}

}  // namespace
}  // namespace hyperion::optim
