#include "hyperion/checkpoint/save.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>

#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/faulty_files.h"
#include "hyperion/base/format.h"
#include "hyperion/checkpoint/step_folder.h"
#include "tests/checkpoint/support_tensors.h"

namespace hyperion::checkpoint::test {
namespace {

using base::FaultyFileSystem;
using base::format;
using base::real_files;

class Save : public testing::Test {
 protected:
  void TearDown() override { base::set_faults(""); }

  void save(int64_t step, int64_t keep = 3) { save_checkpoint(real_files(), folder_, make_snapshot(step), keep); }
  std::vector<int64_t> steps() {
    std::vector<int64_t> found;
    for (const CheckpointEntry& entry : list_checkpoints(real_files(), folder_)) found.push_back(entry.step);
    return found;
  }
  std::vector<std::string> names() {
    std::vector<std::string> found;
    for (const base::Path& path : real_files().list(folder_)) found.push_back(path.filename().string());
    return found;
  }
  bool newest_is(int64_t step) { return is_snapshot(open_newest(real_files(), folder_), step); }

  ScratchFolder scratch_;
  base::Path folder_ = scratch_.path() / "runs" / "x" / "checkpoints";
};
using Steps = std::vector<int64_t>;
using Names = std::vector<std::string>;

TEST_F(Save, a_checkpoint_reads_back_to_the_bit) {
  const base::Path path = save_checkpoint(real_files(), folder_, make_snapshot(12), 1);
  EXPECT_EQ(path, folder_ / "step-12");
  EXPECT_TRUE(is_snapshot(open_checkpoint(real_files(), path), 12));
  EXPECT_EQ(names(), Names{"step-12"});
  Names files;
  for (const base::Path& file : real_files().list(path)) files.push_back(file.filename().string());
  EXPECT_EQ(files, (Names{"manifest.json", "shard-0.safetensors"}));
}

TEST_F(Save, lists_the_newest_first_by_number_with_size_and_time) {
  for (const int64_t step : {100, 20, 3}) save(step);
  const auto entries = list_checkpoints(real_files(), folder_);
  EXPECT_EQ(steps(), (Steps{100, 20, 3}));
  uint64_t bytes = 0;
  for (const base::Path& file : real_files().list(folder_ / "step-100")) bytes += real_files().size(file);
  EXPECT_EQ(entries[0].bytes, bytes);
  EXPECT_EQ(entries[0].created.size(), std::string("2026-11-15T01:40:00Z").size());
}

TEST_F(Save, keeps_the_newest_and_the_one_just_written) {
  for (const int64_t step : {1, 2, 3, 4}) save(step, 2);
  EXPECT_EQ(steps(), (Steps{4, 3}));
  save(2, 2);
  EXPECT_EQ(steps(), (Steps{4, 2})) << "the one just written stays, though others are newer";
  save(9, 1);
  EXPECT_EQ(names(), Names{"step-9"});
}

TEST_F(Save, keeps_the_best_beside_the_newest_until_another_is) {
  const auto save_with_best = [&](int64_t step, int64_t best) {
    Snapshot snapshot = make_snapshot(step);
    snapshot.best = best;
    save_checkpoint(real_files(), folder_, snapshot, 2);
  };
  save_with_best(1, 1), save_with_best(2, 1), save_with_best(3, 1);
  EXPECT_EQ(steps(), (Steps{3, 2, 1}));
  save_with_best(4, 3);
  EXPECT_EQ(steps(), (Steps{4, 3})) << "the best is one of the newest";
}

TEST_F(Save, a_replaced_state_leaves_the_tensors) {
  save(5);
  replace_state(real_files(), folder_ / "step-5", R"({"other":1})");
  const OpenedCheckpoint loaded = open_newest(real_files(), folder_);
  EXPECT_EQ(loaded.state, R"({"other":1})");
  const Snapshot written = make_snapshot(5);
  EXPECT_TRUE(same_bits(loaded.tensor(written.tensors[0].name), written.tensors[0].tensor));
}

TEST_F(Save, retention_counts_only_complete_checkpoints_and_leaves_strangers_alone) {
  real_files().create_folders(folder_ / "step-50");
  real_files().create_folders(folder_ / "step-007");
  real_files().create_folders(folder_ / "best");
  for (const int64_t step : {1, 2, 3}) save(step, 2);
  EXPECT_EQ(steps(), (Steps{3, 2}));
  EXPECT_EQ(names(), (Names{"best", "step-007", "step-2", "step-3", "step-50"}));
}

TEST_F(Save, sweeps_what_crashes_left) {
  save(1);
  real_files().create_folders(folder_ / ".step-2.partial-1");
  write_bytes(folder_ / ".step-2.partial-1" / "shard-0.safetensors", "half");
  EXPECT_EQ(steps(), Steps{1});
  save(3);
  EXPECT_EQ(names(), (Names{"step-1", "step-3"}));
}

TEST_F(Save, replaces_a_step_that_exists) {
  save(5);
  Snapshot other = make_snapshot(6);
  other.step = 5;
  save_checkpoint(real_files(), folder_, other, 3);
  const OpenedCheckpoint loaded = open_newest(real_files(), folder_);
  EXPECT_EQ(loaded.step, 5);
  EXPECT_TRUE(same_bits(loaded.tensor(other.tensors[0].name), other.tensors[0].tensor));
  EXPECT_EQ(names(), Names{"step-5"});
}

TEST_F(Save, a_replacement_cut_short_leaves_the_old_one_to_readers_and_to_the_next_save) {
  save(5);
  save(6);
  real_files().rename(folder_ / "step-6", folder_ / ".step-6.replaced-1");
  EXPECT_EQ(steps(), (Steps{6, 5}));
  EXPECT_TRUE(newest_is(6));
  save(4);
  EXPECT_EQ(names(), (Names{"step-4", "step-5", "step-6"}));
  EXPECT_TRUE(newest_is(6));
}

// Breaks operation after operation until a save gets through unharmed; after each failure the old checkpoints must
// stand.
template <class Break>
int64_t fail_each_operation(const base::Path& folder, int64_t step, Break break_at, bool clears_up) {
  for (int64_t n = 1;; ++n) {
    FaultyFileSystem faulty;
    break_at(faulty, n);
    bool saved = true;
    try {
      save_checkpoint(faulty, folder, make_snapshot(step), 2);
    } catch (const base::FileError& error) {
      EXPECT_FALSE(error.hint().empty());
      saved = false;
    }
    const auto found = list_checkpoints(real_files(), folder);
    EXPECT_TRUE(is_snapshot(open_newest(real_files(), folder), saved ? step : 2)) << n;
    EXPECT_TRUE(is_snapshot(open_checkpoint(real_files(), found.at(1).path), saved ? 2 : 1)) << n;
    if (!saved && clears_up) {
      EXPECT_EQ(real_files().list(folder).size(), 2u) << n;
    }
    if (saved || testing::Test::HasFailure()) return n;
  }
}

TEST_F(Save, every_single_operation_may_fail_and_the_earlier_checkpoints_stand) {
  save(1);
  save(2);
  const auto break_at = [](FaultyFileSystem& files, int64_t n) { files.fail_operation(n); };
  EXPECT_GT(fail_each_operation(folder_, 3, break_at, true), 10);
}

TEST_F(Save, every_write_may_be_torn_and_the_earlier_checkpoints_stand) {
  save(1);
  save(2);
  const auto break_at = [](FaultyFileSystem& files, int64_t n) { files.tear_append(n); };
  EXPECT_GT(fail_each_operation(folder_, 3, break_at, false), 5);
}

TEST_F(Save, every_operation_of_a_replacement_may_fail) {
  save(1);
  save(2);
  const Snapshot old = make_snapshot(2);
  Snapshot other = make_snapshot(9);
  other.step = 2;
  for (int64_t n = 1;; ++n) {
    FaultyFileSystem faulty;
    faulty.fail_operation(n);
    const bool saved = error_of([&] { save_checkpoint(faulty, folder_, other, 2); }).empty();
    const OpenedCheckpoint loaded = open_newest(real_files(), folder_);
    EXPECT_EQ(loaded.step, 2);
    const at::Tensor& expected = saved ? other.tensors[3].tensor : old.tensors[3].tensor;
    EXPECT_TRUE(same_bits(loaded.tensor("mask"), expected)) << n;
    EXPECT_EQ(loaded.state, saved ? other.state : old.state) << n;
    EXPECT_EQ(names(), (Names{"step-1", "step-2"})) << n;
    if (saved || HasFailure()) break;
  }
}

TEST_F(Save, a_full_disk_at_any_byte_leaves_no_trace) {
  save(1);
  save(2);
  const uint64_t whole = list_checkpoints(real_files(), folder_)[0].bytes;
  for (uint64_t room = 0; room < whole; room += 41) {
    FaultyFileSystem faulty;
    faulty.set_capacity(static_cast<int64_t>(room));
    try {
      save_checkpoint(faulty, folder_, make_snapshot(3), 2);
      FAIL() << "a disk of " << room << " bytes held it";
    } catch (const base::FileError& error) {
      EXPECT_EQ(error.code(), ENOSPC);
      EXPECT_NE(error.hint().find("free some space"), std::string::npos);
    }
    ASSERT_EQ(names(), (Names{"step-1", "step-2"}));
  }
  EXPECT_TRUE(newest_is(2));
}

TEST_F(Save, a_failing_disk_is_told_once_and_in_words) {
  FaultyFileSystem faulty;
  faulty.fail_operation(2);
  const std::string text = error_of([&] { save_checkpoint(faulty, folder_, make_snapshot(3), 2); });
  EXPECT_TRUE(text.ends_with("shard-0.safetensors: Input/output error")) << text;
}

TEST_F(Save, every_fault_point_may_throw_or_find_the_disk_full) {
  save(1);
  for (const char* action : {"throw", "enospc"})
    for (const char* point : {"before_shard", "before_manifest", "before_rename"}) {
      base::set_faults(format("checkpoint.{}={}", point, action));
      EXPECT_THROW(save(2), base::Error) << point;
      EXPECT_EQ(names(), Names{"step-1"}) << point;
      EXPECT_TRUE(newest_is(1)) << point;
    }
  base::set_faults("checkpoint.after_rename=throw");
  EXPECT_THROW(save(2), base::Error);
  EXPECT_TRUE(newest_is(2)) << "what was renamed is complete";
}

TEST_F(Save, a_kill_at_every_fault_point_leaves_a_checkpoint_to_resume_from) {
  GTEST_FLAG_SET(death_test_style, "fast");
  save(1);
  for (const char* point :
       {"checkpoint.before_shard", "files.write", "checkpoint.before_manifest", "checkpoint.before_rename"}) {
    const auto die = [&] {
      base::set_faults(format("{}={}", point, point == std::string("files.write") ? "tear@2" : "kill"));
      save(2);
    };
    EXPECT_EXIT(die(), testing::KilledBySignal(SIGKILL), "") << point;
    EXPECT_TRUE(newest_is(1)) << point;
  }
  const auto die = [&] {
    base::set_faults("checkpoint.after_rename=kill");
    save(2, 1);
  };
  EXPECT_EXIT(die(), testing::KilledBySignal(SIGKILL), "");
  EXPECT_TRUE(newest_is(2));
  save(3, 1);
  EXPECT_EQ(names(), Names{"step-3"}) << "all that the killed processes left is gone";
}

}  // namespace
}  // namespace hyperion::checkpoint::test
