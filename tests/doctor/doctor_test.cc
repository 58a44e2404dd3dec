#include "hyperion/doctor/doctor.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>

namespace hyperion::doctor {
namespace {

class Folder {
 public:
  Folder() : path_(::mkdtemp(pattern_.data())) {}
  ~Folder() { std::filesystem::remove_all(path_); }
  const base::Path& path() const { return path_; }

 private:
  std::string pattern_ = (std::filesystem::temp_directory_path() / "hyperion-doctor-XXXXXX").string();
  base::Path path_;
};

const Check* find(const std::vector<Check>& checks, const std::string& name) {
  const auto found = std::find_if(checks.begin(), checks.end(), [&](const Check& check) { return check.name == name; });
  return found == checks.end() ? nullptr : &*found;
}

TEST(doctor, examines_every_part_of_this_machine_and_leaves_nothing_behind) {
  const Folder folder;
  const auto checks = examine({folder.path() / "runs", false});
  for (const char* name : {"cpu", "memory", "run folder", "disk speed", "clock", "gpu in LibTorch", "LibTorch", "Gloo",
                           "launcher", "profilers", "features off"})
    EXPECT_NE(find(checks, name), nullptr) << name;
  for (const Check& check : checks) {
    EXPECT_FALSE(check.finding.empty()) << check.name;
    EXPECT_TRUE(check.verdict == Verdict::ok || !check.hint.empty()) << check.name;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(doctor, quick_skips_the_trial_write) {
  const Folder folder;
  EXPECT_EQ(find(examine({folder.path(), true}), "disk speed"), nullptr);
}

TEST(doctor, tries_the_cpu_in_16_bits_unless_it_is_to_be_quick) {
  const Folder folder;
  int tried = 0;
  const auto slow = [&] {
    ++tried;
    return CpuSlowdown{40, 0};
  };
  EXPECT_NE(find(examine({folder.path(), false, slow}), "cpu")->hint.find("about 40 times"), std::string::npos);
  EXPECT_EQ(tried, 1);
  examine({folder.path(), true, slow});
  EXPECT_EQ(tried, 1);
}

TEST(doctor, a_file_where_the_run_folder_should_be_fails) {
  const Folder folder;
  base::real_files().create(folder.path() / "runs");
  const auto checks = examine({folder.path() / "runs", false});
  ASSERT_NE(find(checks, "run folder"), nullptr);
  EXPECT_EQ(find(checks, "run folder")->verdict, Verdict::fail);
  EXPECT_TRUE(any_fail(checks));
}

}  // namespace
}  // namespace hyperion::doctor
