#include "hyperion/train/run_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "hyperion/base/error.h"
#include "hyperion/base/faulty_files.h"

namespace hyperion::train {
namespace {

namespace fs = std::filesystem;

class RunFolderTest : public ::testing::Test {
 protected:
  RunFolderTest() {
    std::string pattern = (fs::temp_directory_path() / "hyperion-test-XXXXXX").string();
    runs_ = ::mkdtemp(pattern.data());
  }
  ~RunFolderTest() override { fs::remove_all(runs_); }

  base::FileSystem& files_ = base::real_files();
  base::Path runs_;
};

TEST_F(RunFolderTest, jobs_that_were_given_no_name_do_not_meet_in_one_folder) {
  const auto first = RunFolder::create_numbered(files_, runs_, "mine-20261115", "");
  const auto second = RunFolder::create_numbered(files_, runs_, "mine-20261115", "");
  fs::create_directory(runs_ / "mine-20261115-3");  // of one that has only just begun
  const auto fourth = RunFolder::create_numbered(files_, runs_, "mine-20261115", "");
  EXPECT_EQ(first.name(), "mine-20261115");
  EXPECT_EQ(second.name(), "mine-20261115-2");
  EXPECT_EQ(fourth.name(), "mine-20261115-4");
}

TEST_F(RunFolderTest, a_name_that_was_given_is_taken_once) {
  { const auto first = RunFolder::create(files_, runs_, "mine", ""); }
  EXPECT_THROW(RunFolder::create(files_, runs_, "mine", ""), base::Error);
  fs::create_directory(runs_ / "empty");  // left by a process that was killed at once
  EXPECT_EQ(RunFolder::create(files_, runs_, "empty", "").name(), "empty");
}

TEST_F(RunFolderTest, a_rename_that_fails_leaves_the_run_as_it_was) {
  for (const int64_t failing : {1, 2, 3, 4, 5}) {
    SCOPED_TRACE(failing);
    auto run = RunFolder::create(files_, runs_, "mine-" + std::to_string(failing), "");
    report::RunRecord record;
    record.name = run.name();
    report::write_run_record(files_, run.path(), record);
    base::FaultyFileSystem faulty;
    faulty.fail_operation(failing);
    try {
      run.rename(faulty, "other");
      EXPECT_EQ(report::read_run_record(files_, runs_ / "other").name, "other");
      EXPECT_GT(failing, 3) << "a write of the record, its sync or a rename failed, and nobody said so";
      break;
    } catch (const base::FileError&) {
    }
    EXPECT_FALSE(fs::exists(runs_ / "other"));
    EXPECT_EQ(report::read_run_record(files_, run.path()).name, run.name());
  }
}

TEST_F(RunFolderTest, is_in_use_while_a_process_holds_it_also_without_its_lock_file) {
  report::RunRecord record;
  {
    const auto run = RunFolder::create(files_, runs_, "mine", "");
    record.folder = run.path();
    EXPECT_EQ(RunFolder::status(record), "running");
    fs::remove(run.path() / ".lock");
    EXPECT_EQ(RunFolder::status(record), "running");
    EXPECT_THROW(RunFolder::open(files_, run.path()), base::ConfigError);
  }
  EXPECT_EQ(RunFolder::status(record), "killed");
  EXPECT_NO_THROW(RunFolder::open(files_, record.folder));
}

TEST_F(RunFolderTest, a_name_is_a_word_that_commands_can_carry) {
  for (const char* good : {"a", "mine-2_b.c", "_x", "längst", "模型", "7"})
    EXPECT_NO_THROW(check_run_name(good)) << good;
  for (const char* bad :
       {"",   "a b", " a",  "a\n",  "a\tb",  "a'b",       "a\"b",  "$(x)",          "a;b",           "a*",
        "-a", ".a",  "a/b", "a\\b", "a\xff", "a\xc2\xa0", "a\xc2", "a\xe2\x80\x8b", "a\xe3\x80\x80", "\xc2\x9b"})
    EXPECT_THROW(check_run_name(bad), base::ConfigError) << bad;
  for (const char* recipe : {"my recipe.toml", "-x.toml", "recipes/a'b.toml", " .toml", "a\xff.toml"})
    EXPECT_NO_THROW(check_run_name(default_run_name(recipe, 0))) << recipe;
  EXPECT_EQ(default_run_name("my recipe.toml", 0).substr(0, 10), "my-recipe-");
  EXPECT_NO_THROW(check_run_name(std::string(255, 'a')));
  EXPECT_THROW(check_run_name(std::string(256, 'a')), base::ConfigError);
  std::string long_recipe;
  for (int i = 0; i < 80; ++i) long_recipe += "模";
  EXPECT_NO_THROW(check_run_name(default_run_name(long_recipe + ".toml", 0)));
  EXPECT_TRUE(default_run_name(long_recipe + ".toml", 0).starts_with("模"));
}

}  // namespace
}  // namespace hyperion::train
