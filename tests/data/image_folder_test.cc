#include "hyperion/data/image_folder.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "hyperion/base/error.h"
#include "hyperion/data/images.h"
#include "hyperion/data/open_data.h"
#include "tests/base/support_child.h"
#include "tests/support/image_files.h"
#include "tests/support/seed.h"

namespace hyperion::data {
namespace {

using base::test::TestFolder;
using testing::jpeg_file;
using testing::picture;
using testing::png_file;

void write(const base::Path& path, const std::string& content = "x") {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

std::string names(const ImageList& list) {
  std::string text;
  for (const auto& file : list.files)
    text += file.path.parent_path().filename().string() + "/" + file.path.filename().string() + "=" +
            std::to_string(file.label) + " ";
  return text;
}

template <class Work>
std::string folder_refusal(Work work) {
  try {
    work();
  } catch (const base::Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ImageFolder, class_folders_are_read_in_the_order_of_their_names) {
  TestFolder folder;
  for (const char* name : {"b/2.JPG", "b/1.png", "a/z.jpeg", "a/note.txt", "a/.hidden.jpg", ".git/x.jpg"})
    write(folder / name);
  const ImageList list = list_class_folders(folder.path());
  EXPECT_EQ(list.classes, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(names(list), "a/z.jpeg=0 b/1.png=1 b/2.JPG=1 ");
  std::filesystem::create_directories(folder / "c");
  EXPECT_NE(folder_refusal([&] { list_class_folders(folder.path()); }).find("c holds no images"), std::string::npos);
}

TEST(ImageFolder, a_class_whose_name_is_not_utf_8_is_refused_by_its_folder) {
  TestFolder folder;
  for (const char* name : {"a/1.jpg", "caf\xe9/1.jpg"}) write(folder / name);
  const std::string refused = folder_refusal([&] { list_class_folders(folder.path()); });
  EXPECT_NE(refused.find((folder / "caf\\xe9").string() + " is not UTF-8"), std::string::npos) << refused;
}

TEST(ImageFolder, a_link_to_a_folder_that_holds_it_is_no_class_and_a_link_elsewhere_is) {
  TestFolder folder;
  for (const char* name : {"top.jpg", "im/a/1.jpg", "elsewhere/2.jpg"}) write(folder / name);
  std::filesystem::create_directory_symlink("../elsewhere", folder / "im/b");
  EXPECT_EQ(list_class_folders(folder / "im").classes, (std::vector<std::string>{"a", "b"}));
  for (const char* target : {"..", ".", "/"}) {
    std::filesystem::create_directory_symlink(target, folder / "im/looplink");
    const std::string refused = folder_refusal([&] { list_class_folders(folder / "im"); });
    EXPECT_NE(refused.find("looplink is a link to"), std::string::npos) << refused;
    std::filesystem::remove(folder / "im/looplink");
  }
}

class Food : public ::testing::Test {
 protected:
  Food() {
    write(folder_ / "meta/classes.txt", "apple_pie\nbaby_back_ribs\n");
    write(folder_ / "meta/labels.txt", "Apple pie\r\nBaby back ribs\r\n");
    write(folder_ / "meta/train.txt", "baby_back_ribs/7\napple_pie/1005649\n\n");
    write(folder_ / "meta/test.txt", "apple_pie/2\n");
    for (const char* name : {"apple_pie/1005649.jpg", "apple_pie/2.jpg", "baby_back_ribs/7.jpg"})
      write(folder_ / "images" / name);
  }
  std::string refused() {
    return folder_refusal([&] { list_images(folder_.path(), 0.1); });
  }
  TestFolder folder_;
};

TEST_F(Food, its_lists_say_what_is_trained_on) {
  const ImageSplit split = list_images(folder_.path(), 0.1);
  EXPECT_EQ(split.train.classes, (std::vector<std::string>{"apple_pie", "baby_back_ribs"}));
  EXPECT_EQ(names(split.train), "baby_back_ribs/7.jpg=1 apple_pie/1005649.jpg=0 ");
  EXPECT_EQ(names(split.validation), "apple_pie/2.jpg=0 ");
}

TEST_F(Food, what_does_not_fit_is_named_with_its_line) {
  write(folder_ / "meta/train.txt", "apple_pie/2\n\nwaffles/1\n");
  EXPECT_NE(refused().find("train.txt:3: class \"waffles\" is not in classes.txt"), std::string::npos) << refused();
  write(folder_ / "meta/train.txt", "apple_pie/2\napple_pie/3\n");
  EXPECT_NE(refused().find("train.txt:2: images/apple_pie/3.jpg is not there"), std::string::npos) << refused();
  write(folder_ / "meta/train.txt", "apple_pie\n");
  EXPECT_NE(refused().find("train.txt:1: \"apple_pie\" is not CLASS/NAME"), std::string::npos) << refused();
  write(folder_ / "meta/train.txt", "apple_pie/../../x\n");
  EXPECT_NE(refused().find("train.txt:1: "), std::string::npos) << refused();
  write(folder_ / "meta/train.txt", "\n\n");
  EXPECT_NE(refused().find("train.txt: an empty list"), std::string::npos) << refused();
  write(folder_ / "meta/train.txt", "apple_pie/2\n");
  write(folder_ / "meta/labels.txt", "Apple pie\n");
  EXPECT_NE(refused().find("labels.txt: 1 labels, and classes.txt has 2"), std::string::npos) << refused();
  write(folder_ / "meta/classes.txt", "apple_pie\napple_pie\n");
  EXPECT_NE(refused().find("classes.txt:2: class \"apple_pie\" is listed twice"), std::string::npos) << refused();
  write(folder_ / "meta/classes.txt", "../images\n");
  EXPECT_NE(refused().find("classes.txt:1: \"../images\" is no name of a class"), std::string::npos) << refused();
}

TEST(ImageFolder, a_part_of_each_class_is_held_out_the_same_each_time) {
  TestFolder folder;
  for (int i = 0; i < 40; ++i) write(folder / ("a/" + std::to_string(i) + ".jpg"));
  for (int i = 0; i < 20; ++i) write(folder / ("b/" + std::to_string(i) + ".jpg"));
  const ImageSplit split = list_images(folder.path(), 0.1), again = list_images(folder.path(), 0.1);
  EXPECT_EQ(split.train.files.size(), 54u);
  EXPECT_EQ(split.validation.files.size(), 6u);
  int of_b = 0;
  std::set<base::Path> seen;
  for (const auto* list : {&split.train, &split.validation})
    for (const auto& file : list->files) EXPECT_TRUE(seen.insert(file.path).second);
  for (const auto& file : split.validation.files) of_b += file.label == 1;
  EXPECT_EQ(of_b, 2);
  EXPECT_EQ(names(split.validation), names(again.validation));
}

TEST(ImageFolder, folders_of_train_and_val_need_the_same_classes) {
  TestFolder folder;
  for (const char* name : {"train/a/1.jpg", "train/b/1.jpg", "val/a/2.jpg"}) write(folder / name);
  const auto refused = [&] { return folder_refusal([&] { list_images(folder.path(), 0.1); }); };
  EXPECT_NE(refused().find("have other classes"), std::string::npos) << refused();
  write(folder / "val/b/3.jpg");
  EXPECT_EQ(list_images(folder.path(), 0.1).validation.files.size(), 2u);
  std::filesystem::remove_all(folder / "val");
  EXPECT_NE(refused().find("none named val, validation or test"), std::string::npos) << refused();
  EXPECT_NE(folder_refusal([&] { list_images(folder / "nowhere", 0.1); }).find("does not exist"), std::string::npos);
}

TEST(ImageFolder, classes_that_only_one_of_train_and_val_has_are_named) {
  TestFolder folder;
  for (const char* name : {"train/cat/1.jpg", "train/owl/1.jpg", "val/cat/2.jpg", "val/zebra/3.jpg"})
    write(folder / name);
  const std::string refused = folder_refusal([&] { list_images(folder.path(), 0.1); });
  EXPECT_NE(refused.find("train has \"owl\""), std::string::npos) << refused;
  EXPECT_NE(refused.find("val has \"zebra\""), std::string::npos) << refused;
  EXPECT_EQ(refused.find("\"cat\""), std::string::npos) << refused;
}

TEST(ImageFolder, images_that_are_neither_jpeg_nor_png_are_counted_and_other_files_are_not) {
  TestFolder folder;
  for (const char* name : {"a/1.jpg", "a/2.WEBP", "a/3.gif", "a/.4.webp", "a/README", "a/labels.json", "b/1.png",
                           "b/2.jpg", "b/3.tiff", "b/note.txt"})
    write(folder / name);
  const ImageSplit split = list_images(folder.path(), 0.5);
  EXPECT_EQ(passed_over_text(split),
            "3 files are neither JPEG nor PNG and are passed over (the first: " + (folder / "a/2.WEBP").string() + ")");
  std::filesystem::remove(folder / "a/2.WEBP"), std::filesystem::remove(folder / "a/3.gif");
  EXPECT_NE(passed_over_text(list_images(folder.path(), 0.5)).find("1 file is neither"), std::string::npos);
  std::filesystem::remove(folder / "b/3.tiff");
  EXPECT_EQ(passed_over_text(list_images(folder.path(), 0.5)), "");
}

TEST(ImageFolder, images_are_read_straight_from_their_files) {
  TestFolder folder;
  std::mt19937 random(testing::seed());
  for (int i = 0; i < 12; ++i) {
    const images::Pixels image = picture({40 + i, 60}, random);
    const std::string name = (i % 2 == 0 ? "even/" : "odd/") + std::to_string(i);
    if (i % 3 == 0)
      write(folder / (name + ".png"), png_file(image));
    else
      write(folder / (name + ".jpg"), jpeg_file(image));
  }
  DataConfig config;
  config.source = SourceKind::images;
  config.path = {folder.path().string()};
  config.validation = 0.2;
  config.augment.crop = images::Crop::resized;
  const auto split = open_data(config, {0, 16}, 3);
  EXPECT_EQ(split.train_images->samples(), 10);
  EXPECT_EQ(split.train_images->classes(), 2);
  std::vector<float> pixels(3 * 16 * 16), again(pixels), later(pixels);
  int ones = 0;
  for (int64_t i = 0; i < 10; ++i) {
    ones += static_cast<int>(split.train_images->read(i, 0, pixels));
    split.train_images->read(i, 0, again), split.train_images->read(i, 1, later);
    EXPECT_EQ(pixels, again);
    EXPECT_NE(pixels, later);
  }
  EXPECT_EQ(ones, 5);
  const base::Path first = list_images(folder.path(), 0.2).train.files[0].path;
  std::filesystem::resize_file(first, std::filesystem::file_size(first) / 2);
  const std::string refused = folder_refusal([&] { split.train_images->read(0, 0, pixels); });
  EXPECT_NE(refused.find(first.string()), std::string::npos) << refused;
}

}  // namespace
}  // namespace hyperion::data
