#include "hyperion/base/error.h"
#include "hyperion/data/image_check.h"
#include "hyperion/data/image_digest.h"
#include "hyperion/data/image_folder.h"
#include "hyperion/data/images.h"
#include "hyperion/images/augment.h"

namespace hyperion::data {
namespace {

// Decodes on reading: nothing of an image is kept.
class FileImages final : public ImageSource {
 public:
  FileImages(ImageList list, int64_t side, images::Augmenter augmenter)
      : list_(std::move(list)), side_(side), augmenter_(std::move(augmenter)) {}

  int64_t samples() const override { return static_cast<int64_t>(list_.files.size()); }
  images::ImageShape shape() const override { return {3, side_, side_}; }
  int64_t classes() const override { return static_cast<int64_t>(list_.classes.size()); }
  std::vector<std::string> class_names() const override { return list_.classes; }
  std::optional<images::ImageProcessing> processing() const override { return augmenter_.processing(); }
  int64_t read(int64_t index, int64_t epoch, std::span<float> out) const override {
    const ImageFile& file = list_.files.at(index);
    try {
      augmenter_.apply(base::real_files().read(file.path), file.path.string(), index, epoch, out);
    } catch (const base::CorruptError& error) {
      throw base::CorruptError(error.what(), error.hint().empty() ? kBrokenImageHint : error.hint());
    }
    return file.label;
  }

 private:
  ImageList list_;
  int64_t side_;
  images::Augmenter augmenter_;
};

}  // namespace

Split open_image_files(const DataConfig& config, int64_t side, uint64_t seed) {
  ImageSplit lists = list_images(config.path.at(0), config.validation);
  refuse_broken_images(lists);
  const auto source = [&](ImageList& list, bool training) {
    return std::make_unique<FileImages>(std::move(list), side,
                                        images::Augmenter(config.augment, side, seed, training, images::kImagenet));
  };
  Split split;
  split.passed_over = passed_over_text(lists);
  split.digest = image_digest(lists), split.older_digest = image_listing_digest(lists);
  split.train_images = source(lists.train, true);
  split.validation_images = source(lists.validation, false);
  return split;
}

}  // namespace hyperion::data
