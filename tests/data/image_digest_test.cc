#include "hyperion/data/image_digest.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/base/support_child.h"

namespace hyperion::data {
namespace {

class ImageDigest : public ::testing::Test {
 protected:
  ImageDigest() {
    for (const std::string name : {"ant", "bee"})
      for (int i = 0; i < 5; ++i) write(name, i, std::string(100'000, static_cast<char>('a' + i)));
  }
  base::Path path(const std::string& name, int i) const { return folder_ / "in" / name / (std::to_string(i) + ".jpg"); }
  void write(const std::string& name, int i, const std::string& content) const {
    std::filesystem::create_directories(path(name, i).parent_path());
    std::ofstream(path(name, i), std::ios::binary) << content;
  }
  ImageSplit list() const { return list_images(folder_ / "in", 0.2); }
  // Whether another byte there, in any one file, is another digest.
  bool tells(size_t place, uint64_t whole, size_t most = 200'000) const {
    const std::string before = image_digest(list(), whole, most), listing = image_listing_digest(list());
    bool told = true;
    for (const std::string name : {"ant", "bee"})
      for (int i = 0; i < 5; ++i) {
        std::string content = base::real_files().read(path(name, i));
        ++content[place];
        write(name, i, content);
        told = told && image_digest(list(), whole, most) != before;
        EXPECT_EQ(image_listing_digest(list()), listing);
        --content[place];
        write(name, i, content);
      }
    EXPECT_EQ(image_digest(list(), whole, most), before);
    return told;
  }

  base::test::TestFolder folder_;
};

TEST_F(ImageDigest, tells_every_byte_of_a_small_folder) {
  for (const size_t place : {0, 50'000, 99'999}) EXPECT_TRUE(tells(place, 1'000'000)) << place;
}

TEST_F(ImageDigest, tells_how_files_of_a_large_folder_begin_and_end) {
  for (const size_t place : {0, 4095, 99'999 - 4095, 99'999}) EXPECT_TRUE(tells(place, 999'999)) << place;
  EXPECT_FALSE(tells(50'000, 999'999));
}

TEST_F(ImageDigest, looks_at_some_of_very_many_files_and_lists_all) {
  EXPECT_FALSE(tells(0, 0, 9));
  EXPECT_TRUE(tells(0, 0, 10));
  const std::string before = image_digest(list(), 0, 2);
  std::filesystem::rename(path("bee", 4), path("bee", 5));
  EXPECT_NE(image_digest(list(), 0, 2), before);
}

}  // namespace
}  // namespace hyperion::data
