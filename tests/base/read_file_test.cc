#include "hyperion/base/read_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "tests/base/support_child.h"

namespace hyperion::base {
namespace {

using test::error_of;
using test::TestFolder;

TEST(ReadFile, pipes_and_devices_are_refused_and_not_waited_for) {
  TestFolder folder;
  ASSERT_EQ(::mkfifo((folder / "config.json").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", folder / "endless");
  for (const auto& [path, what] : {std::pair(folder / "config.json", "a pipe"), std::pair(folder / "endless", "a dev")})
    for (const std::string& text :
         {error_of<FileError>([&, p = path] { real_files().read(p); }),
          error_of<FileError>([&, p = path] { read_description(real_files(), p); }),
          error_of<FileError>([&, p = path] { MappedFile map(p); }),
          error_of<FileError>([&, p = path] { read_in_pieces(p, [](std::string_view) {}); })}) {
      EXPECT_NE(text.find(path.string()), std::string::npos) << text;
      EXPECT_NE(text.find(what), std::string::npos) << text;
      EXPECT_NE(text.find("hint: "), std::string::npos) << text;
    }
}

TEST(ReadFile, a_file_longer_than_its_reader_allows_is_refused_before_it_is_read) {
  TestFolder folder;
  write_atomically(real_files(), folder / "f", "12345");
  EXPECT_EQ(read_at_most(real_files(), folder / "f", 5), "12345");
  EXPECT_NE(error_of<FileError>([&] { read_at_most(real_files(), folder / "f", 4); }).find("longer than"),
            std::string::npos);
  write_atomically(real_files(), folder / "huge", "");
  real_files().resize(folder / "huge", uint64_t{1} << 40);  // a hole
  EXPECT_NE(error_of<FileError>([&] { read_description(real_files(), folder / "huge"); }).find("longer than"),
            std::string::npos);
}

TEST(ReadFile, what_a_user_names_may_be_a_pipe) {
  TestFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(folder / "pipe") << "said through a pipe"; });
  EXPECT_EQ(read_to_end(folder / "pipe"), "said through a pipe");
  writer.join();
  EXPECT_NE(error_of<FileError>([&] { read_to_end("/dev/zero", 1 << 20); }).find("longer than"), std::string::npos);
}

TEST(ReadFile, every_mapped_file_that_is_cut_short_is_named) {
  TestFolder folder;
  const int code = test::exit_code_of_child([&] {
    watch_mapped_files();
    std::vector<std::unique_ptr<MappedFile>> maps;
    for (int i = 0; i < 200; ++i) {
      const auto path = folder / ("f" + std::to_string(i));
      write_atomically(real_files(), path, std::string(8192, 'x'));
      maps.push_back(std::make_unique<MappedFile>(path));
    }
    if (!std::freopen((folder / "said").c_str(), "w", stderr)) return 98;
    real_files().resize(folder / "f150", 0);
    return static_cast<int>(maps[150]->bytes()[5000]);
  });
  EXPECT_EQ(code, 1);
  EXPECT_NE(real_files().read(folder / "said").find("f150 was cut short"), std::string::npos);
}

}  // namespace
}  // namespace hyperion::base
