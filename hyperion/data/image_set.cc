#include "hyperion/data/image_set.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json_fault.h"
#include "hyperion/images/image_decode.h"

namespace hyperion::data {
namespace {

using base::CorruptError;
using base::format;
using Json = nlohmann::json;

constexpr const char* kLabels = "labels";
constexpr size_t kRawHeader = 8;  // height and width

uint32_t table_number(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

images::ImageSize raw_size(std::string_view record, const std::string& name) {
  if (record.size() >= kRawHeader) {
    const images::ImageSize size{table_number(record, 0), table_number(record, 4)};
    if (size.height > 0 && size.width > 0 && size.height <= images::kMostPixels / size.width &&
        record.size() == kRawHeader + static_cast<size_t>(size.pixels()) * 3)
      return size;
  }
  throw CorruptError(format("{}: {} bytes are not those of its height and width", name, record.size()));
}

class SetImages final : public ImageSource {
 public:
  SetImages(std::shared_ptr<const ImageSet> set, int64_t side, images::Augmenter augmenter)
      : set_(std::move(set)), side_(side), augmenter_(std::move(augmenter)) {}

  int64_t samples() const override { return set_->images(); }
  images::ImageShape shape() const override { return {3, side_, side_}; }
  int64_t classes() const override { return static_cast<int64_t>(set_->classes().size()); }
  std::vector<std::string> class_names() const override { return set_->classes(); }
  std::optional<images::ImageProcessing> processing() const override {
    auto processing = augmenter_.processing();
    // Images that have the size are taken as they are; those of a set like CIFAR all have.
    if (set_->is_raw() && set_->images() > 0 && set_->pixels(0).size == images::ImageSize{side_, side_})
      processing.shorter = side_;
    return processing;
  }
  int64_t read(int64_t index, int64_t epoch, std::span<float> out) const override {
    if (set_->is_raw())
      augmenter_.apply(set_->pixels(index), index, epoch, out);
    else
      augmenter_.apply(set_->bytes(index), set_->name(index), index, epoch, out);
    return set_->label(index);
  }

 private:
  std::shared_ptr<const ImageSet> set_;
  int64_t side_;
  images::Augmenter augmenter_;
};

}  // namespace

ImageSet::ImageSet(const base::Path& path) : file_(path), labels_(file_.section(kLabels)) {
  if (file_.kind() != kImages) throw CorruptError(format("{} holds {}, not images", path.string(), file_.kind()));
  const Json& meta = file_.meta();
  try {
    const auto store = meta.at("store").get<std::string>();
    raw_ = store == "raw";
    if (!raw_ && store != "jpeg") throw CorruptError(format("{}: store \"{}\" is not known", path.string(), store));
    if (meta.value("normalise", "imagenet") == "cifar") normalisation_ = images::kCifar;
    classes_ = meta.at("classes").get<std::vector<std::string>>();
  } catch (const Json::exception& error) {
    throw CorruptError(format("{}: what it says of its images is damaged: {}", path.string(), base::json_fault(error)),
                       "remove the folder, then make it again: hyperion data prepare RECIPE");
  }
  if (labels_.size() != static_cast<size_t>(images()) * 4)
    throw CorruptError(format("{}: {} images have {} bytes of labels", path.string(), images(), labels_.size()));
}

int64_t ImageSet::label(int64_t index) const {
  HYPERION_CHECK(index >= 0 && index < images(), "an image of the set");
  const uint32_t label = table_number(file_.checked(labels_.substr(static_cast<size_t>(index) * 4, 4)), 0);
  if (label >= classes_.size())
    throw CorruptError(format("{}: label {}, and there are {} classes", name(index), label, classes_.size()));
  return label;
}

std::string ImageSet::name(int64_t index) const { return format("{}: image {}", file_.path().string(), index); }

images::ImageSize ImageSet::size(int64_t index) const {
  return raw_ ? raw_size(bytes(index), name(index)) : images::image_size(bytes(index), name(index));
}

images::Pixels ImageSet::pixels(int64_t index) const {
  const auto record = bytes(index);
  if (!raw_) return images::decode_image(record, name(index));
  images::Pixels image(raw_size(record, name(index)));
  std::memcpy(image.rgb.data(), record.data() + kRawHeader, image.rgb.size());
  return image;
}

void ImageSet::verify(const std::function<void(uint64_t)>& progress) const {
  file_.verify(progress);
  for (int64_t index = 0; index < images(); ++index) {
    label(index);
    size(index);
  }
}

std::string raw_record(const images::Pixels& image) {
  std::string record(kRawHeader + image.rgb.size(), '\0');
  const uint32_t size[2] = {static_cast<uint32_t>(image.size.height), static_cast<uint32_t>(image.size.width)};
  std::memcpy(record.data(), size, kRawHeader);
  std::memcpy(record.data() + kRawHeader, image.rgb.data(), image.rgb.size());
  return record;
}

void ImageSetWriter::add(std::string_view record, int64_t label) {
  HYPERION_CHECK(label >= 0 && label <= UINT32_MAX, "a label fits into its bytes");
  const auto number = static_cast<uint32_t>(label);
  char bytes[4];
  std::memcpy(bytes, &number, sizeof bytes);
  writer_.append(kLabels, {bytes, sizeof bytes});
  writer_.add(record);
}

void ImageSetWriter::finish(const std::string& store, const std::string& normalise,
                            const std::vector<std::string>& classes) {
  writer_.finish(kImages, {{"store", store}, {"normalise", normalise}, {"classes", classes}});
}

std::unique_ptr<ImageSource> make_image_source(std::shared_ptr<const ImageSet> set, int64_t side,
                                               images::Augmenter augmenter) {
  return std::make_unique<SetImages>(std::move(set), side, std::move(augmenter));
}

}  // namespace hyperion::data
