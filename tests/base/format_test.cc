#include "hyperion/base/format.h"

#include <gtest/gtest.h>

#include <limits>

#include "hyperion/base/version.h"

namespace hyperion::base {
namespace {

TEST(Format, commas_part_thousands) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(30'768), "30,768");
  EXPECT_EQ(with_commas(1'234'567), "1,234,567");
  EXPECT_EQ(with_commas(-1), "-1");
  EXPECT_EQ(with_commas(-100), "-100");
  EXPECT_EQ(with_commas(-1000), "-1,000");
  EXPECT_EQ(with_commas(-123'456), "-123,456");
  EXPECT_EQ(with_commas(INT64_MIN), "-9,223,372,036,854,775,808");
  EXPECT_EQ(with_commas(INT64_MAX), "9,223,372,036,854,775,807");
}

TEST(Format, bytes_take_the_unit_that_fits) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1.0 KiB");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(16'207'000'000), "15.1 GiB");
  EXPECT_EQ(bytes_text(uint64_t{1} << 40), "1.0 TiB");
  EXPECT_EQ(bytes_text(~uint64_t{0}), "16384.0 PiB");
}

TEST(Format, bytes_that_round_up_to_the_next_unit_take_it) {
  EXPECT_EQ(bytes_text((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(bytes_text((1 << 30) - 1), "1.0 GiB");
  EXPECT_EQ(bytes_text(1023 * 1024), "1023.0 KiB");
}

TEST(Format, durations_read_as_a_clock) {
  EXPECT_EQ(duration_text(0), "00:00");
  EXPECT_EQ(duration_text(0.4), "00:00");
  EXPECT_EQ(duration_text(59.6), "01:00");
  EXPECT_EQ(duration_text(190), "03:10");
  EXPECT_EQ(duration_text(3599.6), "1:00:00");
  EXPECT_EQ(duration_text(4000), "1:06:40");
  EXPECT_EQ(duration_text(360'000), "100:00:00");
}

TEST(Format, a_duration_that_is_none_shows_dashes) {
  for (const double seconds : {-1.0, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN(), 1e19, 1e300})
    EXPECT_EQ(duration_text(seconds), "--:--") << seconds;
}

TEST(Version, starts_with_the_number) { EXPECT_NE(version_text().find(" ("), std::string::npos) << version_text(); }

}  // namespace
}  // namespace hyperion::base
