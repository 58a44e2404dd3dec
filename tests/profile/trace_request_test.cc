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
