#include <array>
#include <deque>
#include <filesystem>
#include <vector>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/data/images.h"

namespace hyperion::data {
namespace {

using base::format;
using base::Path;

constexpr int64_t kSide = 32, kPixels = 3 * kSide * kSide;
constexpr std::array<float, 3> kMean = {0.4914f, 0.4822f, 0.4465f}, kDeviation = {0.2470f, 0.2435f, 0.2616f};

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
  CifarSource(const Path& folder, const std::vector<std::string>& names, const Layout& layout) : layout_(layout) {
    for (const auto& name : names) add(folder / name);
  }

  int64_t samples() const override { return static_cast<int64_t>(files_.size()) * per_file_; }
  ImageShape shape() const override { return {3, kSide, kSide}; }
  int64_t classes() const override { return layout_.classes; }

  int64_t read(int64_t index, std::span<float> out) const override {
    const auto& file = files_[index / per_file_];
    const auto record = file.bytes().substr((index % per_file_) * layout_.record(), layout_.record());
    const auto byte = [&](int64_t at) { return static_cast<unsigned char>(record[at]); };
    for (int64_t i = 0; i < kPixels; ++i) {
      const auto channel = static_cast<size_t>(i / (kSide * kSide));
      out[i] = (static_cast<float>(byte(layout_.label_bytes + i)) / 255.0f - kMean[channel]) / kDeviation[channel];
    }
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
  std::deque<base::MappedFile> files_;
  int64_t per_file_ = 0;
};

}  // namespace

Split open_cifar(const DataConfig& config) {
  const Layout layout = layout_of(config.path.at(0));
  Split split;
  split.train_images = std::make_unique<CifarSource>(config.path.at(0), layout.train, layout);
  split.validation_images = std::make_unique<CifarSource>(config.path.at(0), layout.test, layout);
  return split;
}

}  // namespace hyperion::data
