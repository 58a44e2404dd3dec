#include "hyperion/optim/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "hyperion/base/config.h"
#include "hyperion/base/error.h"
#include "hyperion/optim/config.h"

namespace hyperion::optim {
namespace {

TEST(Schedule, rises_linearly_to_the_peak) {
  for (const auto shape : {ScheduleShape::constant, ScheduleShape::linear, ScheduleShape::cosine}) {
    const Schedule schedule{shape, 2.0, 0.1, 4, 100};
    EXPECT_DOUBLE_EQ(schedule.at(1), 0.5);
    EXPECT_DOUBLE_EQ(schedule.at(3), 1.5);
    EXPECT_DOUBLE_EQ(schedule.at(4), 2.0);
  }
}

TEST(Schedule, falls_to_the_final_part_at_the_last_step_and_stays) {
  for (const auto shape : {ScheduleShape::linear, ScheduleShape::cosine})
    for (const int64_t warmup : {0, 1, 10, 99}) {
      const Schedule schedule{shape, 2.0, 0.1, warmup, 100};
      double last = schedule.at(std::max<int64_t>(1, warmup));
      EXPECT_LE(last, 2.0);
      for (int64_t step = std::max<int64_t>(1, warmup) + 1; step <= 100; ++step) {
        EXPECT_LT(schedule.at(step), last);
        last = schedule.at(step);
      }
      EXPECT_DOUBLE_EQ(schedule.at(100), 0.2);
      EXPECT_DOUBLE_EQ(schedule.at(101), 0.2);
      EXPECT_DOUBLE_EQ(schedule.at(1'000'000), 0.2);
    }
}

TEST(Schedule, has_its_shape_half_way) {
  EXPECT_DOUBLE_EQ((Schedule{ScheduleShape::linear, 1.0, 0, 0, 100}.at(25)), 0.75);
  EXPECT_DOUBLE_EQ((Schedule{ScheduleShape::cosine, 1.0, 0, 0, 100}.at(50)), 0.5);
  EXPECT_NEAR((Schedule{ScheduleShape::cosine, 1.0, 0, 0, 100}.at(25)), 0.5 + std::sqrt(0.5) / 2, 1e-12);
  EXPECT_DOUBLE_EQ((Schedule{ScheduleShape::cosine, 1.0, 0.5, 20, 100}.at(60)), 0.75);
  EXPECT_DOUBLE_EQ((Schedule{ScheduleShape::constant, 1.0, 0.1, 0, 100}.at(100)), 1.0);
}

TEST(Schedule, wsd_stays_at_the_peak_until_its_last_part) {
  const Schedule schedule{ScheduleShape::wsd, 2.0, 0.1, 10, 100, 0.2};
  EXPECT_DOUBLE_EQ(schedule.at(5), 1.0);
  for (const int64_t step : {10, 11, 50, 80}) EXPECT_DOUBLE_EQ(schedule.at(step), 2.0);
  EXPECT_DOUBLE_EQ(schedule.at(90), 1.1);
  for (const int64_t step : {100, 101, 1000}) EXPECT_DOUBLE_EQ(schedule.at(step), 0.2);
  EXPECT_DOUBLE_EQ((Schedule{ScheduleShape::wsd, 2.0, 0.1, 10, 100, 0}.at(99)), 2.0);
}

TEST(Schedule, ends_where_decay_steps_says_and_stays) {
  OptimConfig config;
  config.lr = 1, config.warmup = 0, config.decay_steps = 50;
  for (const int64_t steps : {20, 50, 80}) {
    const Schedule schedule = schedule_of(config, steps);
    EXPECT_DOUBLE_EQ(schedule.at(25), 0.55);
    EXPECT_DOUBLE_EQ(schedule.at(50), 0.1);
    EXPECT_DOUBLE_EQ(schedule.at(80), 0.1);
  }
}

TEST(Schedule, a_final_part_of_one_stays_at_the_peak) {
  for (const int64_t step : {1, 50, 100, 200})
    EXPECT_DOUBLE_EQ((Schedule{ScheduleShape::cosine, 3.0, 1, 0, 100}.at(step)), 3.0);
}

TEST(Schedule, without_warmup_is_finite_from_the_start) {
  for (const auto shape : {ScheduleShape::constant, ScheduleShape::linear, ScheduleShape::cosine})
    for (const int64_t step : {0, 1, 2})
      EXPECT_TRUE(std::isfinite(Schedule{shape, 1, 0, 0, 1}.at(step))) << base::word_of(shape) << step;
}

TEST(Schedule, stays_beyond_the_last_step_even_when_warmup_fills_the_run) {
  for (const auto shape : {ScheduleShape::constant, ScheduleShape::linear, ScheduleShape::cosine})
    for (const int64_t warmup : {5, 8}) {
      const Schedule schedule{shape, 1, 0.1, warmup, 5};
      for (const int64_t step : {6, 7, 8, 9, 100})
        EXPECT_EQ(schedule.at(step), schedule.at(5)) << base::word_of(shape) << warmup;
    }
}

TEST(OptimSettings, reach_the_schedule) {
  OptimConfig config;
  base::Settings settings;
  describe(settings, config);
  settings.read_toml("[optim]\nschedule = \"linear\"\nlr = 0.5\nwarmup = 3\nfinal_lr_ratio = 0.25\n", "r.toml");
  const Schedule schedule = schedule_of(config, 11);
  EXPECT_DOUBLE_EQ(schedule.at(3), 0.5);
  EXPECT_DOUBLE_EQ(schedule.at(11), 0.125);
  for (const char* wrong :
       {"lr = -1", "beta1 = 1", "beta2 = 1.0", "epsilon = 0", "warmup = -1", "rule = \"adam\"", "clip = -1"})
    EXPECT_THROW(settings.read_toml(std::string("[optim]\n") + wrong, "r.toml"), base::ConfigError) << wrong;
}

}  // namespace
}  // namespace hyperion::optim
