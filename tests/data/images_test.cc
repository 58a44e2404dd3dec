#include "hyperion/data/images.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "hyperion/base/error.h"
#include "hyperion/data/open_data.h"

namespace hyperion::data {
namespace {

DataConfig shapes(int64_t images) {
  DataConfig config;
  config.source = SourceKind::shapes;
  config.images = images;
  return config;
}

std::vector<float> image(const ImageSource& source, int64_t index, int64_t* label = nullptr, int64_t epoch = 0) {
  std::vector<float> pixels(source.shape().pixels());
  const int64_t found = source.read(index, epoch, pixels);
  if (label != nullptr) *label = found;
  return pixels;
}

TEST(Shapes, every_kind_comes_about_equally_often_at_unit_scale) {
  const auto split = open_data(shapes(2000), {0, 20}, 3);
  std::map<int64_t, int> counts;
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < 2000; ++i) {
    int64_t label = -1;
    for (const float pixel : image(*split.train_images, i, &label)) sum += pixel, squares += pixel * pixel;
    ++counts[label];
  }
  EXPECT_EQ(counts.size(), 10u);
  for (const auto& [label, count] : counts) EXPECT_NEAR(count, 200, 60) << label;
  const double pixels = 2000.0 * 3 * 20 * 20, mean = sum / pixels;
  EXPECT_LT(std::abs(mean), 1);
  EXPECT_NEAR(std::sqrt(squares / pixels - mean * mean), 1.2, 0.4);
}

TEST(Shapes, an_image_depends_on_seed_index_and_half_alone) {
  const auto one = open_data(shapes(50), {0, 16}, 3), same = open_data(shapes(80), {0, 16}, 3),
             other = open_data(shapes(50), {0, 16}, 4);
  EXPECT_EQ(image(*one.train_images, 7), image(*same.train_images, 7));
  EXPECT_NE(image(*one.train_images, 7), image(*one.train_images, 8));
  EXPECT_NE(image(*one.train_images, 7), image(*other.train_images, 7));
  EXPECT_NE(image(*one.train_images, 1), image(*one.validation_images, 1));
}

class Cifar : public ::testing::Test {
 protected:
  Cifar() : folder_(std::filesystem::temp_directory_path() / ("cifar-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Cifar() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::vector<int>& labels, int label_bytes) {
    std::ofstream out(folder_ / name, std::ios::binary);
    for (const int label : labels) {
      if (label_bytes == 2) out.put(1);
      out.put(static_cast<char>(label));
      for (int i = 0; i < 3072; ++i) out.put(static_cast<char>((i / 1024) * 100));
    }
  }
  void write_cifar10(int last_label) {
    for (int part = 1; part <= 5; ++part) write("data_batch_" + std::to_string(part) + ".bin", {part, 0}, 1);
    write("test_batch.bin", {last_label}, 1);
  }
  DataConfig config() const {
    DataConfig config;
    config.source = SourceKind::cifar;
    config.path = {folder_.string()};
    return config;
  }
  std::string refused() {
    try {
      open_data(config(), {}, 1);
    } catch (const base::Error& error) {
      return error.what();
    }
    return "accepted";
  }

  std::filesystem::path folder_;
};

TEST_F(Cifar, both_kinds_are_read_with_their_labels_and_channels_normalised) {
  write_cifar10(9);
  const auto ten = open_data(config(), {}, 1);
  EXPECT_EQ(ten.train_images->samples(), 10);
  EXPECT_EQ(ten.validation_images->samples(), 1);
  int64_t label = -1;
  const auto pixels = image(*ten.train_images, 4, &label);
  EXPECT_EQ(label, 3);
  EXPECT_NEAR(pixels[0], -0.4914 / 0.2470, 1e-4);
  EXPECT_NEAR(pixels[1024], (100 / 255.0 - 0.4822) / 0.2435, 1e-4);
  EXPECT_NEAR(pixels[3071], (200 / 255.0 - 0.4465) / 0.2616, 1e-4);
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) std::filesystem::remove(entry);
  write("train.bin", {99, 5, 7}, 2);
  write("test.bin", {98}, 2);
  const auto hundred = open_data(config(), {}, 1);
  EXPECT_EQ(hundred.train_images->classes(), 100);
  image(*hundred.train_images, 2, &label);
  EXPECT_EQ(label, 7);
}

TEST_F(Cifar, images_become_as_large_as_the_model_takes_them_and_are_shown_whole) {
  write_cifar10(9);
  const auto large = open_data(config(), {.side = 48}, 1);
  EXPECT_EQ(large.validation_images->shape().height, 48);
  ASSERT_TRUE(large.validation_images->processing().has_value());
  EXPECT_EQ(large.validation_images->processing()->shorter, 48);
  EXPECT_EQ(image(*large.train_images, 4).size(), size_t{3 * 48 * 48});
}

TEST_F(Cifar, training_images_vary_by_epoch_where_asked_and_validation_images_never) {
  write_cifar10(9);
  DataConfig varied = config();
  varied.augment.crop = images::Crop::padded;
  const auto split = open_data(varied, {}, 1), plain = open_data(config(), {}, 1);
  int moved = 0;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    EXPECT_EQ(image(*split.train_images, 3, nullptr, epoch), image(*split.train_images, 3, nullptr, epoch));
    moved += image(*split.train_images, 3, nullptr, epoch) != image(*plain.train_images, 3, nullptr, epoch);
    EXPECT_EQ(image(*split.validation_images, 0, nullptr, epoch), image(*plain.validation_images, 0));
  }
  EXPECT_GT(moved, 15);
  DataConfig text = varied;
  text.source = SourceKind::shapes, text.path = {};
  EXPECT_THROW(check(text), base::ConfigError);
}

TEST_F(Cifar, bad_files_are_refused_by_name) {
  EXPECT_NE(refused().find("neither data_batch_1.bin nor train.bin"), std::string::npos);
  write_cifar10(10);
  EXPECT_NE(refused().find("test_batch.bin: image 0 has label 10"), std::string::npos) << refused();
  write_cifar10(1);
  std::filesystem::resize_file(folder_ / "data_batch_3.bin", 3074);
  EXPECT_NE(refused().find("data_batch_3.bin has 3074 bytes"), std::string::npos) << refused();
  std::filesystem::resize_file(folder_ / "data_batch_3.bin", 3073);  // files need not be equally long
  EXPECT_EQ(refused(), "accepted");
  std::filesystem::remove(folder_ / "data_batch_3.bin");
  EXPECT_NE(refused().find("data_batch_3.bin"), std::string::npos) << refused();
}

}  // namespace
}  // namespace hyperion::data
