#include "hyperion/profile/trace_request.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace hyperion::profile {
namespace {

class Folder {
 public:
  Folder() {
    std::string pattern = ::testing::TempDir() + "hyperion-test-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const base::Path& path() const { return path_; }

 private:
  base::Path path_;
};

TEST(TraceRequest, is_read_once_and_goes) {
  const Folder folder;
  auto& files = base::real_files();
  EXPECT_FALSE(take_request(files, folder.path()).has_value());
  ask_for_trace(files, folder.path(), {.steps = 7, .ranks = {0, 3}, .memory = true});
  EXPECT_TRUE(trace_is_asked(files, folder.path()));
  const auto request = take_request(files, folder.path());
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->steps, 7);
  EXPECT_EQ(request->ranks, (std::vector<int64_t>{0, 3}));
  EXPECT_TRUE(request->memory);
  EXPECT_FALSE(trace_is_asked(files, folder.path()));
}

TEST(TraceRequest, of_ranks_travels_as_bits) {
  EXPECT_EQ((TraceRequest{.ranks = {0, 3}}.mask()), 9);
  for (const int64_t rank : {0, 1, 62, 63, 5000}) EXPECT_TRUE(TraceRequest::asks(TraceRequest{}.mask(), rank));
  EXPECT_TRUE(TraceRequest::asks(9, 3));
  for (const int64_t rank : {1, 2, 62, 63, 5000}) EXPECT_FALSE(TraceRequest::asks(9, rank));
}

TEST(TraceRequest, is_answered_with_its_first_step_or_why_none_is_traced) {
  const auto own = TracePlan::parse("1+3@10", "profile");
  EXPECT_EQ(answer_to({.steps = 2}, own, 5, 100, 1).first, 6);
  EXPECT_EQ(answer_to({.steps = 6}, own, 5, 100, 1).first, 15) << "behind the run's own";
  EXPECT_EQ(answer_to({.steps = 2}, own, 98, 100, 1).first, 99);
  const auto late = answer_to({.steps = 2}, own, 99, 100, 1);
  EXPECT_EQ(late.first, 0);
  EXPECT_EQ(late.refused, "it ends with step 100, before 2 steps could be traced");
  EXPECT_EQ(answer_to({.steps = 2, .ranks = {0, 5}}, own, 5, 100, 2).refused, "there is no rank 5 among 2 processes");
  const auto always = TracePlan::parse("1+8@1,every=10", "profile");
  EXPECT_EQ(answer_to({.steps = 2}, always, 5, 100, 1).refused,
            "its own plan, train.profile, never leaves 3 steps free");
  const Folder folder;
  auto& files = base::real_files();
  EXPECT_FALSE(take_answer(files, folder.path()).has_value());
  ask_for_trace(files, folder.path(), {});
  answer_request(files, folder.path(), late);
  const auto told = take_answer(files, folder.path());
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->refused, late.refused);
  EXPECT_FALSE(take_answer(files, folder.path()).has_value()) << "once";
  answer_request(files, folder.path(), {7, {}});
  ask_for_trace(files, folder.path(), {});
  EXPECT_FALSE(take_answer(files, folder.path()).has_value()) << "that of an earlier request";
}

TEST(TraceRequest, that_is_none_asks_for_nothing_and_goes) {
  const Folder folder;
  auto& files = base::real_files();
  files.create_folders(folder.path() / "traces");
  for (const char* text : {"", "{", "[]", R"({"steps":0,"ranks":[]})", R"({"steps":3,"ranks":[63]})",
                           R"({"steps":"3","ranks":[]})", R"({"steps":1001,"ranks":[]})"}) {
    base::write_atomically(files, folder.path() / "traces" / "asked.json", text);
    EXPECT_FALSE(take_request(files, folder.path()).has_value()) << text;
    EXPECT_FALSE(trace_is_asked(files, folder.path())) << text;
  }
}

}  // namespace
}  // namespace hyperion::profile
