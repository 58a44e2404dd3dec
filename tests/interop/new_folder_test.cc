#include "hyperion/interop/new_folder.h"

#include <gtest/gtest.h>

#include "tests/base/support_child.h"

namespace hyperion::interop {
namespace {

using base::Path;

std::vector<std::string> names_in(const Path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  return names;
}

TEST(NewFolder, what_a_killed_process_left_is_gone_after_the_next) {
  base::test::TestFolder folder;
  auto& files = base::real_files();
  const auto fill = [&](const Path& partial) { base::write_atomically(files, partial / "weights", "here"); };
  EXPECT_EQ(base::test::exit_code_of_child([&]() -> int {
              write_new_folder(files, folder / "model", [&](const Path& partial) {
                fill(partial);
                ::_exit(7);
              });
              return 0;
            }),
            7);
  ASSERT_EQ(names_in(folder.path()).size(), 1u);
  write_new_folder(files, folder / "model", fill);
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"model"});
  EXPECT_EQ(names_in(folder / "model"), std::vector<std::string>{"weights"});
}

TEST(NewFolder, what_another_process_is_writing_stays) {
  base::test::TestFolder folder;
  auto& files = base::real_files();
  EXPECT_ANY_THROW(write_new_folder(files, folder / "model", [&](const Path& partial) {
    write_new_folder(files, folder / "model", [](const Path&) {});
    EXPECT_TRUE(files.exists(partial));
    throw base::Error("the other was first");
  }));
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"model"});
}

}  // namespace
}  // namespace hyperion::interop
