#include "hyperion/checkpoint/load.h"

#include <gtest/gtest.h>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/checkpoint/step_folder.h"
#include "tests/checkpoint/support_tensors.h"

namespace hyperion::checkpoint::test {
namespace {

using base::real_files;

// With every byte of it verified.
OpenedCheckpoint newest_good(const base::Path& folder) {
  return open_newest(real_files(), folder, [](const OpenedCheckpoint& one) { one.verify(); });
}

class Load : public testing::Test {
 protected:
  void SetUp() override {
    for (const int64_t step : {1, 2}) save_checkpoint(real_files(), folder_, make_snapshot(step), 2);
  }
  // After `broken` was damaged: the newest good is step 1, and a warning names the file and both steps.
  void expect_fall_back(const base::Path& broken, const std::string& reason) {
    const std::string text = logged_by([&] { EXPECT_TRUE(is_snapshot(newest_good(folder_), 1)); });
    EXPECT_NE(text.find("step 2 is bad, falling back to step 1"), std::string::npos) << text;
    EXPECT_NE(text.find(broken.string()), std::string::npos) << text;
    EXPECT_NE(text.find(reason), std::string::npos) << text;
  }

  ScratchFolder scratch_;
  base::Path folder_ = scratch_.path() / "checkpoints";
  base::Path shard_ = folder_ / "step-2" / "shard-0.safetensors", manifest_ = folder_ / "step-2" / "manifest.json";
};

TEST_F(Load, takes_the_newest_without_a_warning) {
  EXPECT_EQ(logged_by([&] { EXPECT_TRUE(is_snapshot(newest_good(folder_), 2)); }), "");
}

TEST_F(Load, a_flipped_bit_anywhere_in_the_shard_falls_back) {
  const size_t size = real_files().size(shard_);
  std::mt19937 random(1);
  for (size_t byte = 0; byte < size; byte += 1 + random() % 16) {
    const int bit = random() % 8;
    flip_bit(shard_, byte, bit);
    expect_fall_back(shard_, "has the hash");
    flip_bit(shard_, byte, bit);
  }
  EXPECT_TRUE(is_snapshot(newest_good(folder_), 2));
}

TEST_F(Load, a_flipped_bit_anywhere_in_the_manifest_falls_back) {
  const size_t size = real_files().size(manifest_);
  std::mt19937 random(2);
  for (size_t byte = 0; byte < size; byte += 1 + random() % 8) {
    const int bit = random() % 8;
    flip_bit(manifest_, byte, bit);
    expect_fall_back(manifest_, "checksum");
    flip_bit(manifest_, byte, bit);
  }
}

TEST_F(Load, a_cut_shard_falls_back) {
  const std::string whole = real_files().read(shard_);
  for (const size_t size : {size_t{0}, size_t{7}, whole.size() / 2, whole.size() - 1}) {
    write_bytes(shard_, std::string_view(whole).substr(0, size));
    expect_fall_back(shard_, "its manifest says");
  }
  write_bytes(shard_, whole + "x");
  expect_fall_back(shard_, "its manifest says");
}

TEST_F(Load, a_cut_manifest_falls_back) {
  const std::string whole = real_files().read(manifest_);
  for (const size_t size : {size_t{0}, size_t{20}, whole.size() / 2, whole.size() - 1}) {
    write_bytes(manifest_, std::string_view(whole).substr(0, size));
    expect_fall_back(manifest_, size <= 20 ? "cut short" : "checksum");
  }
}

TEST_F(Load, a_missing_shard_falls_back) {
  std::filesystem::remove(shard_);
  expect_fall_back(shard_, "cannot open");
}

TEST_F(Load, a_checkpoint_without_a_manifest_is_none) {
  std::filesystem::remove(manifest_);
  EXPECT_EQ(logged_by([&] { EXPECT_TRUE(is_snapshot(newest_good(folder_), 1)); }), "");
}

TEST_F(Load, a_folder_renamed_by_hand_is_not_taken_for_a_newer_step) {
  std::filesystem::rename(folder_ / "step-1", folder_ / "step-9");
  EXPECT_NE(error_of([&] { open_checkpoint(real_files(), folder_ / "step-9"); }).find("manifest of step 1"),
            std::string::npos);
  logged_by([&] { EXPECT_TRUE(is_snapshot(newest_good(folder_), 2)); });
}

TEST_F(Load, when_none_is_good_each_is_told) {
  flip_bit(shard_, 100);
  flip_bit(folder_ / "step-1" / "manifest.json", 10);
  try {
    newest_good(folder_);
    FAIL();
  } catch (const base::CorruptError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("step 2: " + shard_.string()), std::string::npos) << text;
    EXPECT_NE(text.find("step 1: " + (folder_ / "step-1" / "manifest.json").string()), std::string::npos) << text;
  }
}

// A disk on which another process saves step 3 and removes the rest, just as a file is read for the n-th time.
class BusyFiles final : public base::FileSystem {
 public:
  BusyFiles(base::Path folder, int n) : folder_(std::move(folder)), left_(n) {}
  std::string read(const base::Path& path) override {
    if (--left_ == 0) save_checkpoint(real_files(), folder_, make_snapshot(3), 1);
    return real_files().read(path);
  }
  std::unique_ptr<base::WritableFile> create(const base::Path& path) override { return real_files().create(path); }
  std::unique_ptr<base::WritableFile> open_append(const base::Path& path) override {
    return real_files().open_append(path);
  }
  void rename(const base::Path& from, const base::Path& to) override { real_files().rename(from, to); }
  void resize(const base::Path& path, uint64_t bytes) override { real_files().resize(path, bytes); }
  void create_folders(const base::Path& path) override { real_files().create_folders(path); }
  void remove_all(const base::Path& path) override { real_files().remove_all(path); }
  bool exists(const base::Path& path) override { return real_files().exists(path); }
  uint64_t size(const base::Path& path) override { return real_files().size(path); }
  std::vector<base::Path> list(const base::Path& folder) override { return real_files().list(folder); }

 private:
  base::Path folder_;
  int left_;
};

TEST_F(Load, looks_again_when_a_running_job_removes_what_was_listed) {
  for (const int nth : {1, 2, 3}) {
    BusyFiles files(folder_, nth);
    EXPECT_TRUE(is_snapshot(open_newest(files, folder_), 3)) << nth;
    std::filesystem::remove_all(folder_);
    SetUp();
  }
}

TEST_F(Load, no_checkpoint_at_all_is_a_mistake_of_the_caller) {
  for (const char* name : {"missing", "empty"}) {
    if (name == std::string("empty")) real_files().create_folders(folder_ / name);
    try {
      newest_good(folder_ / name);
      FAIL();
    } catch (const base::ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("no checkpoint in"), std::string::npos);
    }
  }
}

TEST_F(Load, tensors_stay_readable_after_their_step_is_replaced_and_removed) {
  const OpenedCheckpoint loaded = newest_good(folder_);
  save_checkpoint(real_files(), folder_, make_snapshot(2), 2);
  std::filesystem::remove_all(folder_);
  EXPECT_TRUE(is_snapshot(loaded, 2));
}

TEST_F(Load, a_missing_tensor_is_named) {
  const OpenedCheckpoint loaded = newest_good(folder_);
  EXPECT_NE(error_of([&] { loaded.tensor("absent"); }).find("no tensor \"absent\""), std::string::npos);
}

}  // namespace
}  // namespace hyperion::checkpoint::test
