#include "hyperion/records/input_files.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/base/support_child.h"

namespace hyperion::records {
namespace {

using base::test::error_of;

class InputFilesTest : public ::testing::Test {
 protected:
  InputFilesTest() {
    for (const char* name : {"b.txt", "a.txt", "B.txt", ".hidden.txt", "a.jsonl", "odd[1].txt", "x/1.txt", "x/y/2.txt",
                             "x/y/z/3.txt", "x/.git/4.txt", "w/1.txt"}) {
      std::filesystem::create_directories((folder_ / name).parent_path());
      std::ofstream(folder_ / name) << "text";
    }
    std::filesystem::create_directory(folder_ / "folder.txt");
    std::filesystem::create_directory_symlink(folder_.path(), folder_ / "x/loop");
  }
  // Names below the folder, with spaces between.
  std::string found(const std::vector<std::string>& patterns) {
    std::vector<std::string> whole;
    for (const auto& pattern : patterns) whole.push_back(folder_ / pattern);
    std::string names;
    for (const auto& file : input_files(whole)) names += file.lexically_relative(folder_.path()).string() + " ";
    return names;
  }
  base::test::TestFolder folder_;
};

TEST_F(InputFilesTest, patterns_give_sorted_files_and_no_folders_or_hidden_ones) {
  EXPECT_EQ(found({"*.txt"}), "B.txt a.txt b.txt odd[1].txt ");
  EXPECT_EQ(found({"?.txt"}), "B.txt a.txt b.txt ");
  EXPECT_EQ(found({"[ab].*"}), "a.jsonl a.txt b.txt ");
  EXPECT_EQ(found({"[!a-z].txt"}), "B.txt ");
  EXPECT_EQ(found({"*/1.txt"}), "w/1.txt x/1.txt ");
  EXPECT_EQ(found({"?/*.txt"}), "w/1.txt x/1.txt ");
  EXPECT_EQ(found({".*.txt"}), ".hidden.txt ");
}

TEST_F(InputFilesTest, two_stars_go_through_folders_but_not_through_links) {
  EXPECT_EQ(found({"**/[0-9].txt"}), "w/1.txt x/1.txt x/y/2.txt x/y/z/3.txt ");
  EXPECT_EQ(found({"x/**/*.txt"}), "x/1.txt x/y/2.txt x/y/z/3.txt ");
  EXPECT_EQ(found({"x/**/z/**/*.txt"}), "x/y/z/3.txt ");
}

TEST_F(InputFilesTest, patterns_keep_their_order_and_a_file_comes_once) {
  EXPECT_EQ(found({"b.txt", "?.txt", "./a.txt", "a.jsonl"}), "b.txt B.txt a.txt a.jsonl ");
}

TEST_F(InputFilesTest, a_name_that_looks_like_a_pattern_may_be_a_files) {
  EXPECT_EQ(found({"odd[1].txt"}), "odd[1].txt ");
}

TEST_F(InputFilesTest, nothing_found_and_folders_are_refused_by_name) {
  const auto refusal = [&](const char* pattern) { return error_of<base::ConfigError>([&] { found({pattern}); }); };
  EXPECT_NE(refusal("*.csv").find("no file matches \"" + (folder_ / "*.csv").string()), std::string::npos);
  EXPECT_NE(refusal("none.txt").find("no file matches"), std::string::npos);
  EXPECT_NE(refusal("none/*.txt").find("no file matches"), std::string::npos);
  EXPECT_NE(refusal("a.txt/*").find("no file matches"), std::string::npos);
  EXPECT_NE(refusal("x").find("x\" is a folder"), std::string::npos);
  EXPECT_NE(refusal("x").find("x/*.jsonl"), std::string::npos);
  EXPECT_THROW(input_files({""}), base::ConfigError);
}

TEST(InputFiles, names_that_are_not_utf_8_are_refused_and_shown_escaped) {
  check_utf8_path(
      "data/Gr\xc3\xb6\xc3\x9f"
      "e.txt");
  const std::string refused = error_of<base::ConfigError>([] { check_utf8_path("data/caf\xe9.txt"); });
  EXPECT_NE(refused.find("data/caf\\xe9.txt is not UTF-8"), std::string::npos) << refused;
  EXPECT_NE(refused.find("rename"), std::string::npos) << refused;
  EXPECT_EQ(shown_in_utf8("\xff\x1b\xc3\xb6\xc3"), "\\xff\\x1b\xc3\xb6\\xc3");
}

}  // namespace
}  // namespace hyperion::records
