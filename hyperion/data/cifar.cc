#include <algorithm>
#include <deque>

#include "hyperion/base/hash.h"
#include "hyperion/data/cifar_files.h"
#include "hyperion/data/images.h"
#include "hyperion/images/augment.h"

namespace hyperion::data {
namespace {

class CifarSource final : public ImageSource {
 public:
  CifarSource(const CifarLayout& layout, const std::vector<base::Path>& files, int64_t side,
              images::Augmenter augmenter)
      : classes_(layout.classes), side_(side), augmenter_(std::move(augmenter)) {
    for (const auto& path : files) {
      files_.emplace_back(path, layout);
      files_.back().check_labels();  // once, so that none can be out of range in the middle of a run
      begins_.push_back(samples_);
      samples_ += files_.back().images();
    }
  }

  int64_t samples() const override { return samples_; }
  images::ImageShape shape() const override { return {3, side_, side_}; }
  int64_t classes() const override { return static_cast<int64_t>(classes_.size()); }
  std::vector<std::string> class_names() const override { return classes_; }
  std::optional<images::ImageProcessing> processing() const override { return augmenter_.processing(); }

  int64_t read(int64_t index, int64_t epoch, std::span<float> out) const override {
    const auto file = std::upper_bound(begins_.begin(), begins_.end(), index) - begins_.begin() - 1;
    augmenter_.apply(files_[file].pixels(index - begins_[file]), index, epoch, out);
    return files_[file].label(index - begins_[file]);
  }

 private:
  std::vector<std::string> classes_;
  int64_t side_, samples_ = 0;
  images::Augmenter augmenter_;
  std::deque<CifarFile> files_;
  std::vector<int64_t> begins_;  // of each file, its first sample
};

}  // namespace

Split open_cifar(const DataConfig& config, int64_t wanted, uint64_t seed) {
  const int64_t side = wanted > 0 ? wanted : kCifarSide;
  const CifarLayout layout = cifar_layout(config.path.at(0));
  const auto source = [&](const std::vector<base::Path>& files, bool training) {
    auto augment = config.augment;
    augment.centre = 1;  // what is shown fills the image
    return std::make_unique<CifarSource>(layout, files, side,
                                         images::Augmenter(augment, side, seed, training, images::kCifar));
  };
  Split split;
  for (const auto* half : {&layout.train, &layout.test})
    for (const auto& path : *half) split.digest += base::hash_hex(base::MappedFile(path).bytes());
  split.digest = base::hash_hex(split.digest);
  split.train_images = source(layout.train, true);
  split.validation_images = source(layout.test, false);
  return split;
}

}  // namespace hyperion::data
