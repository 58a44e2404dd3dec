#include "hyperion/data/measured_set.h"

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/data/image_set.h"
#include "hyperion/data/prepared.h"
#include "hyperion/data/token_samples.h"
#include "hyperion/data/token_set.h"
#include "hyperion/images/augment.h"

namespace hyperion::data {
namespace {

using base::ConfigError;
using base::format;

images::Augmenter plain_augmenter(int64_t side, const images::Normalisation& normalisation) {
  return {images::AugmentConfig{}, side, /*seed=*/0, /*training=*/false, normalisation};
}

// Stored images as a model's own processor makes them.
class ProcessedImages final : public ImageSource {
 public:
  ProcessedImages(std::shared_ptr<const ImageSet> set, const images::ImageProcessing& processing)
      : set_(std::move(set)),
        processing_(processing),
        numbers_(plain_augmenter(processing.side, processing.normalisation)) {}

  int64_t samples() const override { return set_->images(); }
  images::ImageShape shape() const override { return {3, processing_.side, processing_.side}; }
  int64_t classes() const override { return static_cast<int64_t>(set_->classes().size()); }
  int64_t read(int64_t index, int64_t, std::span<float> out) const override {
    const images::Pixels image = set_->pixels(index);
    numbers_.normalise(resize(image, images::resize_for(processing_, image.size)), out);
    return set_->label(index);
  }

 private:
  std::shared_ptr<const ImageSet> set_;
  images::ImageProcessing processing_;
  images::Augmenter numbers_;
};

}  // namespace

MeasuredSet::MeasuredSet(const base::Path& folder) : folder_(folder) {
  check_prepared(folder, format("--set {}", folder.string()));
  const bool held_out = SetFile(folder / kValidationSet).records() > 0;
  const base::Path file = folder / (held_out ? kValidationSet : kTrainSet);
  part_ = held_out ? "validation" : "all";
  if (SetFile(file).kind() == kImages)
    images_ = std::make_shared<const ImageSet>(file);
  else
    tokens_ = std::make_shared<const TokenSet>(file);
  if (records() == 0) throw ConfigError(format("{} holds nothing", file.string()), "prepare more");
  if (tokens_ && tokens_->learned_in_all() == 0)
    throw ConfigError(format("{} has no token that the loss counts", file.string()),
                      "its dialogues have no assistant's turn: look at prepare.chat or prepare.messages");
}

int64_t MeasuredSet::records() const { return images_ ? images_->images() : tokens_->documents(); }
int64_t MeasuredSet::vocabulary() const { return tokens_ ? tokens_->vocabulary() : 0; }
std::vector<std::string> MeasuredSet::classes() const {
  return images_ ? images_->classes() : std::vector<std::string>();
}

Split MeasuredSet::tokens(int64_t length) const {
  Split split;
  split.validation = make_token_source(tokens_, Packing::whole, length);
  return split;
}

Split MeasuredSet::images(const images::ImageProcessing& processing) const {
  Split split;
  split.validation_images = std::make_unique<ProcessedImages>(images_, processing);
  return split;
}

Split MeasuredSet::images(int64_t side) const {
  Split split;
  split.validation_images = make_image_source(images_, side, plain_augmenter(side, images_->normalisation()));
  return split;
}

}  // namespace hyperion::data
