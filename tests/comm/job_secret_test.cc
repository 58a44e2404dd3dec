#include "hyperion/comm/job_secret.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "hyperion/base/error.h"
#include "hyperion/base/files.h"

namespace hyperion::comm {
namespace {

class JobSecret : public ::testing::Test {
 protected:
  JobSecret() {
    std::string pattern = (std::filesystem::temp_directory_path() / "hyperion-test-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    ::setenv("XDG_CONFIG_HOME", folder_.c_str(), 1);
    ::unsetenv(kSecretVariable);
  }
  ~JobSecret() override {
    ::unsetenv("XDG_CONFIG_HOME");
    ::unsetenv(kSecretVariable);
    std::filesystem::remove_all(folder_);
  }
  base::Path folder_;
};

TEST_F(JobSecret, is_the_users_own_where_none_is_given_and_the_same_for_all_ranks) {
  std::vector<std::string> keys(8);
  std::vector<std::thread> ranks;
  for (auto& key : keys) ranks.emplace_back([&] { key = find_job_key("job 1"); });
  for (auto& rank : ranks) rank.join();
  for (const auto& key : keys) EXPECT_EQ(key, keys[0]);
  EXPECT_NE(find_job_key("job 2"), keys[0]);
  const auto file = folder_ / "hyperion/job_secret";
  EXPECT_EQ(std::filesystem::status(file).permissions() & std::filesystem::perms(077), std::filesystem::perms::none);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(file.parent_path()), {}), 1)
      << "nothing is left beside it";
}

TEST_F(JobSecret, that_others_can_read_or_guess_is_refused) {
  find_job_key("");
  std::filesystem::permissions(folder_ / "hyperion/job_secret", std::filesystem::perms(0644));
  EXPECT_THROW(find_job_key(""), base::ConfigError);
  ::setenv(kSecretVariable, "short", 1);
  EXPECT_THROW(find_job_key(""), base::ConfigError);
  ::setenv(kSecretVariable, "long enough to be kept", 1);
  EXPECT_EQ(find_job_key("j"), job_key("long enough to be kept", "j"));
}

TEST_F(JobSecret, is_another_each_time_it_is_made) { EXPECT_NE(new_job_secret(), new_job_secret()); }

}  // namespace
}  // namespace hyperion::comm
