#include "hyperion/base/clock.h"

#include <gtest/gtest.h>

namespace hyperion::base {
namespace {

TEST(Clock, writes_utc) {
  EXPECT_EQ(utc_text(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(utc_text(951'782'400), "2000-02-29T00:00:00Z");
  EXPECT_EQ(utc_text(1'794'706'800.9), "2026-11-15T01:40:00Z");
  EXPECT_EQ(file_stamp(1'794'706'800.9), "20261115-014000");
}

TEST(Clock, real_time_never_runs_back_and_fake_time_moves_by_hand) {
  double last = real_clock().seconds();
  for (int i = 0; i < 1000; ++i) {
    const double now = real_clock().seconds();
    EXPECT_GE(now, last);
    last = now;
  }
  EXPECT_GT(real_clock().unix_seconds(), 1.7e9);
  FakeClock clock;
  clock.advance(2.5);
  EXPECT_EQ(clock.seconds(), 2.5);
  EXPECT_EQ(clock.unix_seconds(), 1.7e9 + 2.5);
}

}  // namespace
}  // namespace hyperion::base
