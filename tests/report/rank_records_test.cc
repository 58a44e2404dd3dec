#include "hyperion/report/rank_records.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "hyperion/base/error.h"

namespace hyperion::report {
namespace {

class RanksFile : public ::testing::Test {
 protected:
  RanksFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "hyperion-test-XXXXXX").string();
    run_ = ::mkdtemp(pattern.data());
  }
  ~RanksFile() override { std::filesystem::remove_all(run_); }
  base::FileSystem& files_ = base::real_files();
  base::Path run_;
};

TEST_F(RanksFile, comes_back_as_each_rank_told_it) {
  EXPECT_FALSE(read_ranks(files_, run_).has_value());
  RankRecord record{100, 200, 300, 4, 6, 1.5, {}};
  record.traffic["weights all_gather weights"] = {12, 3400, 0.25, 0.125};
  write_ranks(files_, run_, {to_json(record), to_json(RankRecord{})});
  const auto back = read_ranks(files_, run_);
  ASSERT_TRUE(back.has_value());
  ASSERT_EQ(back->size(), 2u);
  const auto& first = back->front();
  EXPECT_EQ(first.state(), 604);
  EXPECT_EQ(first.steps, 6);
  EXPECT_EQ(first.seconds, 1.5);
  const auto& gathered = first.traffic.at("weights all_gather weights");
  EXPECT_EQ(gathered.calls, 12);
  EXPECT_EQ(gathered.bytes, 3400);
  EXPECT_EQ(gathered.seconds, 0.25);
  EXPECT_EQ(gathered.exposed, 0.125);
  EXPECT_TRUE(back->back().traffic.empty());
}

TEST_F(RanksFile, that_is_none_is_refused) {
  for (const char* text : {"", "[]", "{\"ranks\": [{}]}", "{\"ranks\": [{\"weights\": \"many\"}]}"}) {
    base::write_atomically(files_, run_ / "ranks.json", text);
    EXPECT_THROW(read_ranks(files_, run_), base::CorruptError) << text;
  }
}

}  // namespace
}  // namespace hyperion::report
