#include "hyperion/images/augment.h"

#include <algorithm>
#include <cmath>

#include "hyperion/base/error.h"
#include "hyperion/images/image_decode.h"
#include "hyperion/images/image_operations.h"
#include "hyperion/images/rand_augment.h"

namespace hyperion::images {

Augmenter::Augmenter(const AugmentConfig& config, int64_t side, uint64_t seed, bool training, const Normalisation& own)
    : config_(config),
      side_(side),
      key_(base::stream_key(seed, "data.augment")),
      training_(training),
      recolors_(training && recolors(config)),
      normalisation_(parse_normalisation(config.normalise).value_or(own)) {
  HYPERION_CHECK(side > 0, "images have pixels");
  for (size_t c = 0; c < 3; ++c)
    for (int level = 0; level < 256; ++level)
      table_[c][level] = (static_cast<float>(level) / 255.0f - normalisation_.mean[c]) / normalisation_.deviation[c];
}

// Ten tries at an area and a ratio that fit; else the middle, as near to the ratios as the image allows.
Box Augmenter::random_box(ImageSize whole, Draws& draws) const {
  const auto area = static_cast<double>(whole.pixels());
  for (int i = 0; i < 10; ++i) {
    const double part = area * draws.uniform(config_.least_area, 1), most = -std::log(config_.least_ratio);
    const double ratio = std::exp(draws.uniform(-most, most));
    const auto width = static_cast<int64_t>(std::nearbyint(std::sqrt(part * ratio)));
    const auto height = static_cast<int64_t>(std::nearbyint(std::sqrt(part / ratio)));
    if (width > 0 && width <= whole.width && height > 0 && height <= whole.height) {
      const int64_t left = draws.below(whole.width - width + 1), top = draws.below(whole.height - height + 1);
      return {left, top, width, height};
    }
  }
  const auto height = static_cast<double>(whole.height), width = static_cast<double>(whole.width);
  ImageSize size = whole;
  if (width < height * config_.least_ratio)
    size.height = std::min(whole.height, static_cast<int64_t>(std::nearbyint(width / config_.least_ratio)));
  else if (width * config_.least_ratio > height)
    size.width = std::min(whole.width, static_cast<int64_t>(std::nearbyint(height / config_.least_ratio)));
  return {(whole.width - size.width) / 2, (whole.height - size.height) / 2, size.width, size.height};
}

int64_t Augmenter::shorter_side() const {
  const double part = training_ && config_.crop == Crop::padded ? 1 : config_.centre > 0 ? config_.centre : kCentre;
  return static_cast<int64_t>(std::nearbyint(static_cast<double>(side_) / part));
}

Augmenter::View Augmenter::view(ImageSize whole, Draws& draws) const {
  const Filter filter = config_.filter == FilterChoice::bicubic ? Filter::kBicubic : Filter::kBilinear;
  const ImageSize square{side_, side_};
  View view{{{0, 0, whole.width, whole.height}, square, filter}};
  if (training_ && config_.crop == Crop::resized) {
    view.resize.box = random_box(whole, draws);
  } else if (whole != square) {  // an image that has the size already is taken as it is
    view.resize = resize_for(processing(), whole);
  }
  if (training_ && config_.crop == Crop::padded) {
    view.right = config_.padding - draws.below(2 * config_.padding + 1);
    view.down = config_.padding - draws.below(2 * config_.padding + 1);
  }
  view.mirrored = training_ && config_.flip && draws.below(2) == 1;
  return view;
}

void Augmenter::vary(Pixels& image, const View& view, Draws& draws) const {
  if (view.right != 0 || view.down != 0) shift(image, view.right, view.down);
  if (view.mirrored) mirror(image);
  if (!recolors_) return;
  jitter(image, config_.jitter, draws);
  rand_augment(image, config_.operations, config_.magnitude, draws);
}

void Augmenter::normalise_row(const uint8_t* rgb, int64_t y, bool mirrored, std::span<float> out) const {
  for (int64_t c = 0; c < 3; ++c) {
    float* plane = out.data() + (c * side_ + y) * side_;
    if (mirrored)
      for (int64_t x = 0; x < side_; ++x) plane[side_ - 1 - x] = table_[c][rgb[3 * x + c]];
    else
      for (int64_t x = 0; x < side_; ++x) plane[x] = table_[c][rgb[3 * x + c]];
  }
}

void Augmenter::normalise(const Pixels& image, std::span<float> out) const {
  HYPERION_CHECK(image.size == (ImageSize{side_, side_}) && static_cast<int64_t>(out.size()) == 3 * side_ * side_,
                 "an image has the size that was asked for");
  for (int64_t y = 0; y < side_; ++y) normalise_row(image.row(y), y, false, out);
}

// Where neither margin nor colors change, rows go straight from the resizing to the output.
void Augmenter::write(const Pixels& image, const View& view, Draws& draws, std::span<float> out) const {
  HYPERION_CHECK(static_cast<int64_t>(out.size()) == 3 * side_ * side_, "there is room for the image");
  if (view.right == 0 && view.down == 0 && !recolors_) {
    resize_rows(image, view.resize, [&](int64_t y, const uint8_t* rgb) { normalise_row(rgb, y, view.mirrored, out); });
    return;
  }
  Pixels changed = resize(image, view.resize);
  vary(changed, view, draws);
  normalise(changed, out);
}

Pixels Augmenter::varied(const Pixels& image, int64_t index, int64_t epoch) const {
  Draws numbers = draws(index, epoch);
  const View seen = view(image.size, numbers);
  Pixels changed = resize(image, seen.resize);
  vary(changed, seen, numbers);
  return changed;
}

void Augmenter::apply(const Pixels& image, int64_t index, int64_t epoch, std::span<float> out) const {
  Draws numbers = draws(index, epoch);
  write(image, view(image.size, numbers), numbers, out);
}

void Augmenter::apply(std::string_view file, const std::string& name, int64_t index, int64_t epoch,
                      std::span<float> out) const {
  Draws numbers = draws(index, epoch);
  View seen = view(image_size(file, name), numbers);
  // A part that would still be twice the size is as good when it is decoded smaller. Validation keeps to the letter.
  int64_t shrink = 1;
  const int64_t shorter = std::min(seen.resize.box.width, seen.resize.box.height);
  while (training_ && config_.crop == Crop::resized && shrink < 8 && shorter >= 4 * shrink * side_) shrink *= 2;
  const ImagePart part = decode_part(file, name, seen.resize.box, shrink);
  seen.resize.box = part.find(seen.resize.box);
  write(part.pixels, seen, numbers, out);
}

}  // namespace hyperion::images
