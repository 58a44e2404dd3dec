#include "hyperion/web/guard.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "hyperion/base/error.h"
#include "tests/base/support_child.h"

namespace hyperion::web {
namespace {

TEST(Guard, takes_this_machines_names_for_a_host_on_any_port) {
  for (const char* host : {"127.0.0.1", "127.0.0.1:7007", "localhost", "LocalHost:1", "[::1]", "[::1]:65535"})
    EXPECT_TRUE(is_loopback_host(host)) << host;
}

TEST(Guard, takes_no_other_name_for_this_machine) {
  for (const char* host :
       {"", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "evil.example:7007",
        "127.0.0.1:", "127.0.0.1:70a", "127.0.0.1:123456", "localhost@evil", "::1", "[::1", "[::1]x", "127.0.0.10",
        "0.0.0.0", "localhos", "localhost ", "127.0.0.1:80:80"})
    EXPECT_FALSE(is_loopback_host(host)) << host;
}

TEST(Guard, finds_a_cookie_by_its_whole_name) {
  EXPECT_EQ(cookie_value("a=1; hyperion_7=x; b=2", "hyperion_7"), "x");
  EXPECT_EQ(cookie_value("hyperion_7=x", "hyperion_7"), "x");
  EXPECT_EQ(cookie_value("hyperion_77=x;xhyperion_7=y; ;;=", "hyperion_7"), "");
  EXPECT_EQ(cookie_value("", "hyperion_7"), "");
}

TEST(Guard, same_text_is_of_the_same_length_and_letters) {
  EXPECT_TRUE(same_text("abc", "abc"));
  EXPECT_FALSE(same_text("abc", "abd"));
  EXPECT_FALSE(same_text("abc", "ab"));
  EXPECT_FALSE(same_text("", "a"));
}

TEST(Guard, no_two_tokens_are_the_same) {
  EXPECT_EQ(new_token().size(), 43u);
  EXPECT_NE(new_token(), new_token());
}

TEST(Guard, a_kept_token_stays_and_is_for_its_owner_alone) {
  const base::test::TestFolder folder;
  const auto path = folder.path() / "config" / "dash_token";
  const auto token = kept_token(path);
  EXPECT_EQ(kept_token(path), token);
  struct stat facts {};
  ASSERT_EQ(::stat(path.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  ::chmod(path.c_str(), 0644);
  EXPECT_THROW(kept_token(path), base::ConfigError);
  ::chmod(path.c_str(), 0600);
  base::write_atomically(base::real_files(), path, "short");
  ::chmod(path.c_str(), 0600);
  EXPECT_THROW(kept_token(path), base::ConfigError);
}

}  // namespace
}  // namespace hyperion::web
