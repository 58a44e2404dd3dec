// Saves that fail, and saves in the background: the run goes on, and every rank knows what became of them.
#include "hyperion/checkpoint/saver.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <mutex>

#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/faulty_files.h"
#include "hyperion/base/format.h"
#include "hyperion/checkpoint/step_folder.h"
#include "tests/checkpoint/support_tensors.h"

namespace hyperion::checkpoint::test {
namespace {

using base::FaultyFileSystem;
using base::real_files;

class SaverTest : public testing::Test {
 protected:
  void TearDown() override { base::set_faults(""); }
  static Saver::Options quick(bool background = false) {
    return {.retention = 2, .background = background, .first_pause = 1e-3};
  }
  std::vector<int64_t> steps() {
    std::vector<int64_t> found;
    for (const CheckpointEntry& entry : list_checkpoints(real_files(), folder_)) found.push_back(entry.step);
    return found;
  }
  size_t entries() { return real_files().list(folder_).size(); }

  ScratchFolder scratch_;
  base::Path folder_ = scratch_.path() / "checkpoints";
};
using Steps = std::vector<int64_t>;

TEST_F(SaverTest, a_save_that_fails_once_is_tried_again) {
  FaultyFileSystem faulty;
  Saver saver(faulty, folder_, quick());
  for (int64_t n = 1; n <= 6; ++n) {
    faulty.fail_operation(n);
    std::string log;
    log = logged_by([&] { saver.save(make_snapshot(n)); });
    const auto ended = saver.wait();
    ASSERT_TRUE(ended) << n;
    EXPECT_TRUE(ended->complete()) << ended->failure;
    EXPECT_EQ(ended->tries, 2) << n;
    EXPECT_NE(log.find("trying again"), log.npos) << log;
    EXPECT_TRUE(is_snapshot(open_newest(real_files(), folder_), n)) << n;
    EXPECT_FALSE(saver.wait()) << "it is told once";
  }
  EXPECT_EQ(steps(), (Steps{6, 5}));
}

TEST_F(SaverTest, a_disk_that_stays_full_is_told_and_the_last_good_checkpoint_stays) {
  for (const bool background : {false, true}) {
    FaultyFileSystem faulty;
    Saver saver(faulty, folder_, quick(background));
    saver.save(make_snapshot(1));
    EXPECT_TRUE(saver.wait()->complete());
    faulty.set_capacity(100);
    saver.save(make_snapshot(2));
    const auto ended = saver.wait();
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->tries, Saver::kTries);
    EXPECT_NE(ended->failure.find("No space left on device"), std::string::npos) << ended->failure;
    EXPECT_NE(ended->hint.find("free some space"), std::string::npos) << ended->hint;
    EXPECT_EQ(steps(), Steps{1});
    EXPECT_EQ(entries(), 1u) << "what was begun is removed";
    faulty.set_capacity(-1);
    saver.save_now(make_snapshot(3));
    EXPECT_TRUE(saver.wait()->complete());
    EXPECT_TRUE(is_snapshot(open_newest(real_files(), folder_), 3));
    std::filesystem::remove_all(folder_);
  }
}

TEST_F(SaverTest, what_is_written_in_the_background_is_the_state_at_the_call) {
  Saver saver(real_files(), folder_, quick(/*background=*/true));
  for (int64_t step = 1; step <= 4; ++step) {
    Snapshot live = make_snapshot(step);
    saver.save(live);
    for (auto& item : live.tensors) item.tensor.zero_();  // training goes on
    const auto ended = saver.wait();
    ASSERT_TRUE(ended && ended->complete());
    EXPECT_TRUE(is_snapshot(open_newest(real_files(), folder_), step)) << step;
  }
}

TEST_F(SaverTest, the_next_save_and_the_end_wait_for_the_one_before) {
  base::set_faults("checkpoint.before_manifest=sleep@1/1");
  {
    Saver saver(real_files(), folder_, quick(/*background=*/true));
    saver.save(make_snapshot(1));
    EXPECT_EQ(steps(), Steps{}) << "it sleeps before its manifest";
    saver.save(make_snapshot(2));
    EXPECT_EQ(steps(), Steps{1});
  }
  EXPECT_EQ(steps(), (Steps{2, 1}));
}

TEST_F(SaverTest, without_memory_for_the_copy_it_says_so_and_writes_at_once) {
  auto options = quick(/*background=*/true);
  options.room = [] { return uint64_t{10}; };
  Saver saver(real_files(), folder_, options);
  const std::string log = logged_by([&] { saver.save(make_snapshot(1)); });
  EXPECT_NE(log.find("checkpoints are written while training waits: a copy of the state takes"), log.npos) << log;
  EXPECT_FALSE(saver.background());
  EXPECT_EQ(steps(), Steps{1});
  EXPECT_EQ(logged_by([&] { saver.save(make_snapshot(2)); }), "") << "once";
}

TEST_F(SaverTest, what_is_no_failure_of_storage_ends_it) {
  base::set_faults("checkpoint.before_shard=throw@1/1");
  Saver now(real_files(), folder_, quick());
  EXPECT_THROW(now.save(make_snapshot(1)), base::Error);
  Saver later(real_files(), folder_, quick(/*background=*/true));
  later.save(make_snapshot(1));
  EXPECT_THROW(later.wait(), base::Error);
}

// One rank's disk fails: no other may believe in the checkpoint.
TEST_F(SaverTest, ranks_agree_on_what_became_of_a_save) {
  for (const bool background : {false, true})
    for (const int failing : {0, 1, 2}) {
      std::mutex mutex;
      std::vector<std::string> failures;
      const auto errors = on_ranks(3, [&](int rank, comm::Group& group) {
        FaultyFileSystem faulty;
        Saver saver(faulty, folder_, quick(background), &group);
        const auto snapshot = [&](int64_t step) {
          Snapshot part;
          part.step = step;
          part.tensors.push_back({.name = base::format("of {}", rank), .tensor = at::full({300}, double(step))});
          return part;
        };
        saver.save(snapshot(1));
        EXPECT_TRUE(saver.wait()->complete());
        if (rank == failing) faulty.set_capacity(50);
        saver.save(snapshot(2));
        const auto ended = saver.wait();
        EXPECT_FALSE(ended->complete());
        {
          const std::lock_guard lock(mutex);
          failures.push_back(ended->failure);
        }
        faulty.set_capacity(-1);
        if (rank == failing) faulty.fail_operation(1);  // and once more, which is tried again
        saver.save(snapshot(3));
        EXPECT_TRUE(saver.wait()->complete());
      });
      for (const auto& error : errors) EXPECT_EQ(error, "");
      for (const auto& failure : failures) EXPECT_NE(failure.find("No space left"), failure.npos) << failure;
      EXPECT_EQ(steps(), (Steps{3, 1}));
      const auto opened = open_newest(real_files(), folder_);
      for (int rank = 0; rank < 3; ++rank)
        EXPECT_EQ(opened.tensor(base::format("of {}", rank)).sum().item<double>(), 900);
      std::filesystem::remove_all(folder_);
    }
}

TEST_F(SaverTest, of_each_so_many_steps_the_first_is_kept_for_ever) {
  auto options = quick();
  options.retention = {1, 10};
  Saver saver(real_files(), folder_, options);
  for (const int64_t step : {4, 8, 12, 16, 20, 24, 28, 32}) saver.save(make_snapshot(step));
  EXPECT_EQ(steps(), (Steps{32, 20, 12}));
  for (const int64_t step : {36, 40, 44}) saver.save(make_snapshot(step));
  EXPECT_EQ(steps(), (Steps{44, 40, 32, 20, 12}));
}

}  // namespace
}  // namespace hyperion::checkpoint::test
