#include <deque>
#include <filesystem>
#include <vector>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/data/augment.h"
#include "hyperion/data/images.h"

namespace hyperion::data {
namespace {

using base::format;
using base::Path;

constexpr int64_t kSide = 32, kPixels = 3 * kSide * kSide;

struct Layout {
  int64_t classes, label_bytes;  // the last label byte is the one that counts
  std::vector<std::string> train, test;
  int64_t record() const { return label_bytes + kPixels; }
};

Layout layout_of(const Path& folder) {
  std::error_code ignored;
  if (std::filesystem::exists(folder / "data_batch_1.bin", ignored)) {
    Layout layout{10, 1, {}, {"test_batch.bin"}};
    for (int part = 1; part <= 5; ++part) layout.train.push_back(format("data_batch_{}.bin", part));
    return layout;
  }
  if (std::filesystem::exists(folder / "train.bin", ignored)) return {100, 2, {"train.bin"}, {"test.bin"}};
  throw base::ConfigError(format("data.path = \"{}\" holds neither data_batch_1.bin nor train.bin", folder.string()),
                          "name the folder that the binary version of CIFAR-10 or CIFAR-100 unpacks to");
}

class CifarSource final : public ImageSource {
 public:
  CifarSource(const Path& folder, const std::vector<std::string>& names, const Layout& layout, Augmenter augmenter)
      : layout_(layout), augmenter_(std::move(augmenter)) {
    for (const auto& name : names) add(folder / name);
  }

  int64_t samples() const override { return static_cast<int64_t>(files_.size()) * per_file_; }
  ImageShape shape() const override { return {3, kSide, kSide}; }
  int64_t classes() const override { return layout_.classes; }

  int64_t read(int64_t index, int64_t epoch, std::span<float> out) const override {
    const auto& file = files_[index / per_file_];
    const auto record = file.bytes().substr((index % per_file_) * layout_.record(), layout_.record());
    const auto byte = [&](int64_t at) { return static_cast<unsigned char>(record[at]); };
    Pixels image({kSide, kSide});
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t i = 0; i < kSide * kSide; ++i)
        image.rgb[3 * i + c] = byte(layout_.label_bytes + c * kSide * kSide + i);
    augmenter_.apply(image, index, epoch, out);
    return byte(layout_.label_bytes - 1);
  }

 private:
  // Every label is looked at once here, so that none can be out of range in the middle of a run.
  void add(const Path& path) {
    files_.emplace_back(path);
    const auto bytes = files_.back().bytes();
    const int64_t record = layout_.record(), count = static_cast<int64_t>(bytes.size()) / record;
    if (count == 0 || static_cast<int64_t>(bytes.size()) % record != 0)
      throw base::CorruptError(
          format("{} has {} bytes, not a whole number of records of {}", path.string(), bytes.size(), record));
    if (per_file_ == 0) per_file_ = count;
    if (count != per_file_)
      throw base::CorruptError(
          format("{} holds {} images, and the file before it {}", path.string(), count, per_file_));
    for (int64_t i = 0; i < count; ++i)
      if (const int label = static_cast<unsigned char>(bytes[i * record + layout_.label_bytes - 1]);
          label >= layout_.classes)
        throw base::CorruptError(
            format("{}: image {} has label {}, and there are {} classes", path.string(), i, label, layout_.classes));
  }

  Layout layout_;
  Augmenter augmenter_;
  std::deque<base::MappedFile> files_;
  int64_t per_file_ = 0;
};

}  // namespace

Split open_cifar(const DataConfig& config, uint64_t seed) {
  const Layout layout = layout_of(config.path.at(0));
  const auto source = [&](const std::vector<std::string>& names, bool training) {
    return std::make_unique<CifarSource>(config.path.at(0), names, layout,
                                         Augmenter(config.augment, kSide, seed, training, kCifar));
  };
  Split split;
  split.train_images = source(layout.train, true);
  split.validation_images = source(layout.test, false);
  return split;
}

}  // namespace hyperion::data
