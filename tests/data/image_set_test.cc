#include "hyperion/data/image_set.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/images/image_decode.h"
#include "tests/base/support_child.h"
#include "tests/support/image_files.h"
#include "tests/support/seed.h"

namespace hyperion::data {
namespace {

using base::test::TestFolder;
using testing::jpeg_file;
using testing::picture;

const std::vector<std::string> kClasses = {"cat", "dog", "owl"};

struct Written {
  std::vector<images::Pixels> images;
  std::vector<std::string> files;
};

Written write_sets(const base::Path& folder, int count) {
  std::mt19937 random(testing::seed());
  ImageSetWriter jpeg(base::real_files(), folder / "jpeg.set"), raw(base::real_files(), folder / "raw.set");
  Written written;
  for (int i = 0; i < count; ++i) {
    written.files.push_back(jpeg_file(picture({20 + i, 50 - i}, random)));
    written.images.push_back(images::decode_image(written.files.back(), "x"));
    jpeg.add(written.files.back(), i % 3);
    raw.add(raw_record(written.images.back()), i % 3);
  }
  jpeg.finish("jpeg", "imagenet", kClasses);
  raw.finish("raw", "cifar", kClasses);
  return written;
}

TEST(ImageSet, gives_images_labels_and_classes_back) {
  TestFolder folder;
  const Written written = write_sets(folder.path(), 20);
  for (const char* name : {"jpeg.set", "raw.set"}) {
    const ImageSet set(folder / name);
    set.verify();
    EXPECT_EQ(set.images(), 20);
    EXPECT_EQ(set.classes(), kClasses);
    for (int64_t i = 0; i < 20; ++i) {
      EXPECT_EQ(set.label(i), i % 3);
      EXPECT_EQ(set.pixels(i).size, written.images[i].size);
      EXPECT_EQ(set.pixels(i).rgb, written.images[i].rgb);
    }
  }
  EXPECT_EQ(ImageSet(folder / "jpeg.set").bytes(7), written.files[7]);
}

TEST(ImageSet, both_stores_train_on_the_same_numbers) {
  TestFolder folder;
  write_sets(folder.path(), 8);
  images::AugmentConfig config;
  config.crop = images::Crop::resized, config.flip = true;
  const auto source = [&](const char* name) {
    return make_image_source(std::make_shared<const ImageSet>(folder / name), 16,
                             images::Augmenter(config, 16, 1, true, images::kImagenet));
  };
  const auto jpeg = source("jpeg.set"), raw = source("raw.set");
  std::vector<float> one(3 * 16 * 16), other(one);
  for (int64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(jpeg->read(i, 2, one), raw->read(i, 2, other));
    EXPECT_EQ(one, other) << i;
  }
}

TEST(ImageSet, what_is_wrong_is_named) {
  TestFolder folder;
  const auto refusal = [&](const auto& work) -> std::string {
    try {
      work();
    } catch (const base::CorruptError& error) {
      return error.what();
    }
    return "accepted";
  };
  const auto opened = [&](const std::string& store, int64_t label, const std::string& record) {
    ImageSetWriter writer(base::real_files(), folder / "x.set");
    writer.add(raw_record(images::Pixels({2, 2})), 0);
    writer.add(record, label);
    writer.finish(store, "imagenet", kClasses);
    return refusal([&] { ImageSet(folder / "x.set").verify(); });
  };
  const std::string good = raw_record(images::Pixels({2, 3}));
  EXPECT_EQ(opened("raw", 2, good), "accepted");
  EXPECT_NE(opened("raw", 3, good).find("x.set: image 1: label 3, and there are 3 classes"), std::string::npos);
  EXPECT_NE(opened("raw", 0, good.substr(0, 20)).find("image 1: 20 bytes are not those of its height and width"),
            std::string::npos);
  EXPECT_NE(opened("raw", 0, std::string(26, '\xff')).find("image 1: 26 bytes"), std::string::npos);
  EXPECT_NE(opened("raw", 0, "").find("image 1: 0 bytes"), std::string::npos);
  EXPECT_NE(opened("gif", 0, good).find("store \"gif\" is not known"), std::string::npos);
  EXPECT_NE(opened("jpeg", 0, good).find("image 0: neither a JPEG nor a PNG file"), std::string::npos);

  SetWriter tokens(base::real_files(), folder / "t.set");
  tokens.finish("tokens", nlohmann::json::object());
  EXPECT_NE(refusal([&] { ImageSet(folder / "t.set"); }).find("holds tokens, not images"), std::string::npos);
  SetWriter bare(base::real_files(), folder / "b.set");
  bare.add(good);
  bare.finish(kImages, {{"store", "raw"}, {"classes", kClasses}});
  EXPECT_NE(refusal([&] { ImageSet(folder / "b.set"); }).find("1 images have 0 bytes of labels"), std::string::npos);
  SetWriter wrong(base::real_files(), folder / "w.set");
  wrong.finish(kImages, {{"store", 3}});
  EXPECT_NE(refusal([&] { ImageSet(folder / "w.set"); }).find("what it says of its images is damaged"),
            std::string::npos);
}

}  // namespace
}  // namespace hyperion::data
