#include "hyperion/host/addresses.h"

#include <gtest/gtest.h>

namespace hyperion::host {
namespace {

TEST(Addresses, host_and_port_are_told_apart) {
  const auto named = parse_host_port("gpu07:29500");
  ASSERT_TRUE(named.has_value());
  EXPECT_EQ(named->host, "gpu07");
  EXPECT_EQ(named->port, 29500);
  EXPECT_EQ(parse_host_port("[::1]:80")->host, "::1");
  for (const char* bad : {"", "gpu07", ":80", "a:", "a:0", "a:65536", "a:x", "::1:80", "[]:80", "a:-1"})
    EXPECT_FALSE(parse_host_port(bad).has_value()) << bad;
}

TEST(Addresses, names_have_numbers) {
  EXPECT_EQ(numeric_address("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(numeric_address("no such name.invalid"), "");
  EXPECT_FALSE(leads_back("127.0.0.1"));
  EXPECT_FALSE(leads_back("127.0.1.1")) << "who says so means it";
}

}  // namespace
}  // namespace hyperion::host
