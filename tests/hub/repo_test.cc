#include "hyperion/hub/repo.h"

#include <gtest/gtest.h>

namespace hyperion::hub {
namespace {

TEST(Repo, IsReadFromNameAndRevision) {
  const auto plain = parse_repo("Qwen/Qwen2.5-0.5B", RepoKind::model);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->name, "Qwen/Qwen2.5-0.5B");
  EXPECT_EQ(plain->revision, "main");
  EXPECT_EQ(plain->text(), "Qwen/Qwen2.5-0.5B");
  const auto pinned = parse_repo("gpt2@refs/pr/7", RepoKind::model);
  ASSERT_TRUE(pinned);
  EXPECT_EQ(pinned->name, "gpt2");
  EXPECT_EQ(pinned->revision, "refs/pr/7");
  EXPECT_EQ(pinned->text(), "gpt2@refs/pr/7");
}

TEST(Repo, IsNotReadFromPathsAndWhatCouldLeaveTheCache) {
  for (const char* text : {"",         "/",    "a/b/c", "./model", "../model", "a/..",   "/etc/passwd", "a//b",
                           "a/",       "a b",  "a/b@",  "~/m",     "a--b/c",   "a/b@..", "a/b@../../x", "a/b@/x",
                           "a/b@x//y", "a/-b", "a/b.",  "a/b?c",   "a\n/b"})
    EXPECT_FALSE(parse_repo(text, RepoKind::model)) << text;
  EXPECT_FALSE(parse_repo(std::string(97, 'a'), RepoKind::model));
}

TEST(Repo, NamesOfFilesMayNotLeaveTheirFolder) {
  for (const char* name : {"config.json", "data/train 1.parquet", "a/b/c.txt", "..a", "h\xc3\xa9.txt"})
    EXPECT_TRUE(is_safe_file_name(name)) << name;
  for (const char* name :
       {"", "..", "../a", "a/../../b", "/etc/passwd", "a//b", "a/", "./a", "a\nb", "a\x1b[2J", "\x7f"})
    EXPECT_FALSE(is_safe_file_name(name)) << name;
  EXPECT_FALSE(is_safe_file_name(std::string(256, 'a')));
}

}  // namespace
}  // namespace hyperion::hub
