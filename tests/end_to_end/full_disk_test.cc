// A disk that fills up, or a process that dies in a write: whatever the moment, the run can be finished as if nothing
// had been.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

namespace fs = std::filesystem;
using testing::Finished;
using testing::run;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

class FullDisk : public ::testing::Test {
 protected:
  Words train(const std::string& name, const char* steps = "6", const char* every = "2") {
    return Words{"train", testing::tiny_recipe(scratch_), "--run", name,           "--steps",
                 steps,   "--checkpoint.every",           every,   "--eval.every", "3"} +
           testing::text_data(scratch_) + testing::device_flags();
  }
  void undisturbed() {
    const Finished done = run(scratch_, train("whole"));
    ASSERT_EQ(done.code, 0) << done.err;
  }
  // With space again: a run that exists goes on, one that does not can be made.
  void expect_finishes_as_undisturbed(const std::string& name) {
    const bool exists = fs::exists(scratch_.runs() / name / "config.resolved.toml");
    const Finished again = run(scratch_, exists ? Words{"resume", name} : train(name));
    ASSERT_EQ(again.code, 0) << again.err;
    const auto shard = fs::path("checkpoints") / "step-6" / "shard-0.safetensors";
    EXPECT_EQ(testing::losses(scratch_.runs() / name), testing::losses(scratch_.runs() / "whole"));
    EXPECT_TRUE(testing::read_file(scratch_.runs() / name / shard) ==
                testing::read_file(scratch_.runs() / "whole" / shard));
    EXPECT_EQ(testing::leftovers(scratch_.runs() / name), "");
  }

  Scratch scratch_;
};

// The first writes one by one (they make the folder), then at a stride that shares no factor with the writes of a step.
int next_write(int n) { return n < 8 ? n + 1 : n + 23; }

TEST_F(FullDisk, any_write_that_finds_the_disk_full_loses_nothing) {
  undisturbed();
  int failed = 0;
  for (int n = 1;; n = next_write(n)) {
    SCOPED_TRACE("write " + std::to_string(n));
    const std::string name = "full-" + std::to_string(n);
    const Finished done = run(scratch_, train(name), {{"HYPERION_FAULTS", "files.write=enospc@" + std::to_string(n)}});
    if (done.code == 0 && done.err.find("No space left on device") == std::string::npos)
      break;  // fewer writes than that
    ++failed;
    if (done.code != 0) {
      EXPECT_EQ(done.code, 1) << done.err;
      EXPECT_NE(testing::error_line(done).find("No space left on device"), std::string::npos) << done.err;
      EXPECT_NE(testing::hint_line(done).find("free some space"), std::string::npos) << done.err;
    }
    EXPECT_EQ(testing::leftovers(scratch_.runs()), "");
    EXPECT_EQ(run(scratch_, {"runs", "ls"}).code, 0);
    expect_finishes_as_undisturbed(name);
    fs::remove_all(scratch_.runs() / name);
  }
  EXPECT_GT(failed, 8) << "the faults did not reach the writes";
}

TEST_F(FullDisk, a_kill_in_the_middle_of_any_write_loses_nothing) {
  undisturbed();
  int killed = 0;
  for (int n = 1;; n = next_write(n)) {
    SCOPED_TRACE("write " + std::to_string(n));
    const std::string name = "torn-" + std::to_string(n);
    const Finished done = run(scratch_, train(name), {{"HYPERION_FAULTS", "files.write=tear@" + std::to_string(n)}});
    if (done.code == 0) break;
    ++killed;
    EXPECT_EQ(done.code, 128 + SIGKILL) << done.err;
    expect_finishes_as_undisturbed(name);
    fs::remove_all(scratch_.runs() / name);
  }
  EXPECT_GT(killed, 8) << "the faults did not reach the writes";
}

// A real small file system over the runs, taken away at the end.
class SmallDisk {
 public:
  explicit SmallDisk(const fs::path& path) : path_(path) {
    fs::create_directories(path_);
    mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=1m") == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  bool grow() { return ::mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT, "size=64m") == 0; }

 private:
  fs::path path_;
  bool mounted_;
};

TEST_F(FullDisk, a_real_disk_that_is_too_small_keeps_the_earlier_checkpoints) {
  SmallDisk disk(scratch_.runs());
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small disk needs root; the faults above stand in for it";
  const Finished done = run(scratch_, train("small"));
  EXPECT_EQ(done.code, 1) << done.err;
  EXPECT_NE(testing::error_line(done).find("No space left on device"), std::string::npos) << done.err;
  EXPECT_NE(testing::hint_line(done).find("free some space"), std::string::npos) << done.err;
  EXPECT_EQ(testing::leftovers(scratch_.runs()), "");
  EXPECT_TRUE(fs::exists(scratch_.runs() / "small" / "checkpoints" / "step-2" / "manifest.json"));
  ASSERT_TRUE(disk.grow());
  undisturbed();
  expect_finishes_as_undisturbed("small");
}

TEST_F(FullDisk, a_run_goes_on_where_the_disk_is_full_for_a_while) {
  SmallDisk disk(scratch_.runs());
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small disk needs root; the faults above stand in for it";
  testing::Program program(scratch_, train("small", "400", "40"));
  ASSERT_TRUE(program.wait_for_text("the run goes on, and the checkpoint of step"));
  ASSERT_TRUE(disk.grow());
  const Finished done = program.wait();
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(testing::losses(scratch_.runs() / "small").size(), 400u);
  const Finished shown = run(scratch_, {"runs", "show", "small"});
  EXPECT_TRUE(testing::says(shown.out, "failed saves")) << shown.out;
  EXPECT_FALSE(testing::says(shown.out, "not saved")) << "the last one is there: " << shown.out;
  EXPECT_EQ(run(scratch_, {"checkpoint", "verify", "small"}).code, 0);
}

TEST_F(FullDisk, a_stop_whose_checkpoint_cannot_be_written_says_so) {
  const Finished done = run(scratch_, train("stopped"),
                            {{"HYPERION_FAULTS", "checkpoint.before_shard=enospc@2/1,train.step=interrupt@3"}});
  EXPECT_EQ(done.code, 1) << done.err;
  EXPECT_TRUE(testing::says(testing::error_line(done), "the checkpoint of step 3, where the run stops")) << done.err;
  EXPECT_TRUE(testing::says(testing::hint_line(done), "`hyperion resume stopped` goes on from step 2")) << done.err;
  undisturbed();
  expect_finishes_as_undisturbed("stopped");
}

TEST_F(FullDisk, a_kill_while_a_checkpoint_is_written_in_the_background_loses_nothing) {
  undisturbed();
  for (const char* point : {"before_shard", "before_manifest", "before_rename", "after_rename"}) {
    const std::string name = std::string("killed-") + point;
    const Finished done = run(scratch_, train(name) + Words{"--checkpoint.async=on"},
                              {{"HYPERION_FAULTS", std::string("checkpoint.") + point + "=kill@2"}});
    EXPECT_EQ(done.code, 128 + SIGKILL) << done.err;
    expect_finishes_as_undisturbed(name);
  }
}

TEST_F(FullDisk, a_folder_without_permission_is_told_and_untouched) {
  if (::getuid() != 0) {
    fs::create_directories(scratch_.runs());
    ::chmod(scratch_.runs().c_str(), 0555);
    const Finished done = run(scratch_, train("x"));
    ::chmod(scratch_.runs().c_str(), 0755);
    EXPECT_EQ(done.code, 1) << done.err;
    EXPECT_NE(testing::hint_line(done).find("permissions"), std::string::npos) << done.err;
    return;
  }
  // Root may write anywhere but on a disk that is mounted read-only.
  SmallDisk disk(scratch_.runs());
  if (!disk.mounted() || ::mount("tmpfs", scratch_.runs().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) != 0)
    GTEST_SKIP() << "root cannot mount a read-only disk here";
  const Finished done = run(scratch_, train("x"));
  EXPECT_EQ(done.code, 1) << done.err;
  EXPECT_NE(testing::error_line(done).find("Read-only file system"), std::string::npos) << done.err;
  EXPECT_NE(testing::hint_line(done).find("permissions"), std::string::npos) << done.err;
  EXPECT_TRUE(testing::tree(scratch_.runs()).empty());
}

}  // namespace
}  // namespace hyperion
