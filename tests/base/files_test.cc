#include "hyperion/base/files.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "hyperion/base/faulty_files.h"
#include "tests/base/support_child.h"

namespace hyperion::base::test {
namespace {

std::vector<std::string> names_in(const TestFolder& folder) {
  std::vector<std::string> names;
  for (const auto& path : real_files().list(folder.path())) names.push_back(path.filename());
  return names;
}

TEST(Files, reads_back_bytes_of_any_value) {
  TestFolder folder;
  std::string content;
  for (int i = 0; i < 300'000; ++i) content += static_cast<char>(i * 7);
  write_atomically(real_files(), folder / "f", content);
  EXPECT_EQ(real_files().read(folder / "f"), content);
  EXPECT_EQ(real_files().size(folder / "f"), content.size());
  EXPECT_EQ(MappedFile(folder / "f").bytes(), content);
  write_atomically(real_files(), folder / "f", "");
  EXPECT_EQ(real_files().read(folder / "f"), "");
  EXPECT_EQ(names_in(folder), std::vector<std::string>{"f"});
}

TEST(Files, a_failed_atomic_write_leaves_the_old_or_the_new_and_no_part) {
  TestFolder folder;
  FaultyFileSystem counting;
  write_atomically(counting, folder / "f", "counted");
  ASSERT_GE(counting.operations(), 4);
  for (int64_t n = 1; n <= counting.operations() + 1; ++n) {
    write_atomically(real_files(), folder / "f", "old");
    FaultyFileSystem files;
    files.fail_operation(n);
    bool failed = false;
    try {
      write_atomically(files, folder / "f", "new and longer");
    } catch (const FileError& error) {
      failed = true;
      EXPECT_EQ(error.code(), EIO);
    }
    EXPECT_EQ(failed, n <= counting.operations()) << n;
    EXPECT_EQ(real_files().read(folder / "f"), failed ? "old" : "new and longer") << n;
    EXPECT_EQ(names_in(folder), std::vector<std::string>{"f"}) << n;
  }
}

TEST(Files, a_full_disk_leaves_the_old_content) {
  TestFolder folder;
  write_atomically(real_files(), folder / "f", "old");
  FaultyFileSystem files;
  for (int64_t capacity = 0; capacity < 3; ++capacity) {
    files.set_capacity(capacity);
    try {
      write_atomically(files, folder / "f", "new");
      ADD_FAILURE() << "written to a full disk";
    } catch (const FileError& error) {
      EXPECT_EQ(error.code(), ENOSPC);
    }
    EXPECT_EQ(real_files().read(folder / "f"), "old");
    EXPECT_EQ(names_in(folder), std::vector<std::string>{"f"});
  }
  files.set_capacity(3);
  write_atomically(files, folder / "f", "new");
  EXPECT_EQ(real_files().read(folder / "f"), "new");
}

TEST(Files, a_crash_in_mid_write_leaves_the_old_content_and_the_part_under_another_name) {
  TestFolder folder;
  write_atomically(real_files(), folder / "f", "old");
  FaultyFileSystem files;
  files.tear_append(1);
  EXPECT_THROW(write_atomically(files, folder / "f", "new1"), FileError);
  EXPECT_EQ(real_files().read(folder / "f"), "old");
  const auto names = names_in(folder);
  ASSERT_EQ(names.size(), 2u);
  EXPECT_EQ(names[1].find("f.partial"), 0u);
  EXPECT_EQ(real_files().read(folder / names[1]), "ne");
  EXPECT_THROW(files.create(folder / "g"), FileError);
  EXPECT_THROW(files.rename(folder / "f", folder / "g"), FileError);
}

TEST(Files, threads_that_write_one_path_never_mix_their_content) {
  TestFolder folder;
  const std::string a(200'000, 'a'), b(100'000, 'b');
  const auto write = [&](const std::string& content) {
    for (int i = 0; i < 20; ++i) {
      write_atomically(real_files(), folder / "f", content);
      const std::string seen = real_files().read(folder / "f");
      EXPECT_TRUE(seen == a || seen == b) << seen.size();
    }
  };
  std::thread first(write, a), second(write, b);
  first.join();
  second.join();
  EXPECT_EQ(names_in(folder), std::vector<std::string>{"f"});
}

TEST(Files, append_keeps_what_was_there_and_create_empties_it) {
  TestFolder folder;
  real_files().open_append(folder / "f")->append("one");
  real_files().open_append(folder / "f")->append("two");
  EXPECT_EQ(real_files().read(folder / "f"), "onetwo");
  real_files().create(folder / "f")->append("x");
  EXPECT_EQ(real_files().read(folder / "f"), "x");
}

TEST(Files, every_failure_names_the_path) {
  TestFolder folder;
  auto& files = real_files();
  const Path missing = folder / "no" / "file";
  const auto named = [](const Path& path, auto body) {
    const std::string text = error_of<FileError>(body);
    EXPECT_NE(text.find(path.string()), std::string::npos) << text;
  };
  named(missing, [&] { files.read(missing); });
  named(missing, [&] { files.size(missing); });
  named(missing, [&] { files.create(missing); });
  named(missing, [&] { files.open_append(missing); });
  named(missing, [&] { files.rename(missing, missing); });
  named(missing, [&] { MappedFile map(missing); });
  named(missing, [&] { FileLock lock(missing, "busy"); });
  named(folder.path(), [&] { files.read(folder.path()); });
  named(folder.path(), [&] { MappedFile map(folder.path()); });
  named(missing, [&] { write_atomically(files, missing, "x"); });
  files.create(folder / "file");
  named(folder / "file", [&] { files.create_folders(folder / "file" / "below"); });
  named(folder / "file", [&] { files.list(folder / "file"); });
  EXPECT_FALSE(files.exists(missing));
}

TEST(Files, an_empty_file_maps_to_no_bytes) {
  TestFolder folder;
  real_files().create(folder / "f");
  EXPECT_TRUE(MappedFile(folder / "f").bytes().empty());
}

TEST(Files, lists_sorted_and_a_missing_folder_as_empty) {
  TestFolder folder;
  for (const char* name : {"c", "a", "b10", "b2"}) real_files().create(folder / name);
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{"a", "b10", "b2", "c"}));
  EXPECT_TRUE(real_files().list(folder / "none").empty());
}

TEST(Files, removes_folders_whole_and_missing_ones_quietly) {
  TestFolder folder;
  real_files().create_folders(folder / "x" / "y");
  real_files().create_folders(folder / "x" / "y");
  real_files().create(folder / "x" / "y" / "f");
  real_files().remove_all(folder / "x");
  real_files().remove_all(folder / "x");
  EXPECT_TRUE(names_in(folder).empty());
}

TEST(Files, a_read_only_folder_is_an_error_with_a_hint) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  TestFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const std::string text = error_of<FileError>([&] { write_atomically(real_files(), folder / "f", "x"); });
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
  EXPECT_NE(text.find("HYPERION_RUNS"), std::string::npos) << text;
}

TEST(FileLock, is_held_by_one_process_until_it_ends) {
  TestFolder folder;
  const auto taken = [&] {
    return exit_code_of_child([&] {
      return error_of<ConfigError>([&] { FileLock lock(folder / "l", "run x is busy"); }).find("run x is busy") !=
                     std::string::npos
                 ? 1
                 : 0;
    });
  };
  EXPECT_EQ(taken(), 0);
  {
    FileLock lock(folder / "l", "busy");
    EXPECT_EQ(taken(), 1);
    EXPECT_THROW(FileLock again(folder / "l", "busy"), ConfigError);
  }
  EXPECT_EQ(taken(), 0);
}

TEST(FileLock, falls_when_its_holder_is_killed) {
  TestFolder folder;
  const int code = exit_code_of_child([&] {
    FileLock lock(folder / "l", "busy");
    return ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(code, 128 + SIGKILL);
  FileLock lock(folder / "l", "busy");
}

}  // namespace
}  // namespace hyperion::base::test
