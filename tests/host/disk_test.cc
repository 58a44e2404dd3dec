#include "hyperion/host/disk.h"

#include <gtest/gtest.h>

#include "hyperion/base/error.h"
#include "hyperion/base/faulty_files.h"
#include "tests/host/support_tree.h"

namespace hyperion::host {
namespace {

constexpr uint64_t kMebibyte = 1 << 20;

// Two seconds pass between any two looks.
class SteppingClock final : public base::Clock {
 public:
  double seconds() const override { return now_ += 2; }
  double unix_seconds() const override { return 0; }

 private:
  mutable double now_ = 0;
};

TEST(disk, the_longest_mount_tells_the_filesystem) {
  const std::string mounts =
      "21 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
      "30 21 0:25 / /data rw shared:5 - nfs4 server:/export rw\n"
      "31 30 0:26 / /data/fast\\040disk rw - xfs /dev/nvme0n1 rw\n"
      "32 21 0:27 / /database rw - tmpfs tmpfs rw\n";
  EXPECT_EQ(filesystem_of("/home/me", mounts), "ext4");
  EXPECT_EQ(filesystem_of("/data/runs", mounts), "nfs4");
  EXPECT_EQ(filesystem_of("/data/fast disk/runs", mounts), "xfs");
  EXPECT_EQ(filesystem_of("/data", ""), "unknown");
}

TEST(disk, a_folder_not_yet_made_is_judged_by_its_parent) {
  const Tree tree;
  const Disk disk = disk_of(tree.root() / "runs/not/yet");
  EXPECT_EQ(disk.folder, std::filesystem::canonical(tree.root()));
  EXPECT_TRUE(disk.writable) << disk.not_writable_because;
  EXPECT_GT(disk.total, 0u);
  EXPECT_FALSE(std::filesystem::exists(tree.root() / "runs"));
}

TEST(disk, a_file_in_the_way_is_not_writable) {
  Tree tree;
  tree.file("/runs", "a file");
  const Disk disk = disk_of(tree.root() / "runs/mine");
  EXPECT_FALSE(disk.writable);
  EXPECT_NE(disk.not_writable_because.find("is not a folder"), std::string::npos);
}

TEST(disk, the_trial_shrinks_with_the_room_left) {
  EXPECT_EQ(trial_bytes(uint64_t{1} << 40), 64 * kMebibyte);
  EXPECT_EQ(trial_bytes(40 * kMebibyte), 10 * kMebibyte);
  EXPECT_EQ(trial_bytes(3 * kMebibyte), 0u);
}

TEST(disk, speed_is_bytes_over_the_seconds_of_write_and_sync) {
  const Tree tree;
  const WriteSpeed speed = measure_write(base::real_files(), SteppingClock(), tree.root(), 5 * kMebibyte + 7);
  EXPECT_EQ(speed.bytes, 5 * kMebibyte + 7);
  EXPECT_DOUBLE_EQ(speed.bytes_per_second, (5 * kMebibyte + 7) / 2.0);
  EXPECT_TRUE(base::real_files().list(tree.root()).empty());
}

TEST(disk, a_full_disk_throws_and_leaves_nothing) {
  const Tree tree;
  base::FaultyFileSystem files;
  files.set_capacity(6 * kMebibyte);
  EXPECT_THROW(measure_write(files, SteppingClock(), tree.root(), 8 * kMebibyte), base::FileError);
  EXPECT_TRUE(base::real_files().list(tree.root()).empty());
}

}  // namespace
}  // namespace hyperion::host
