// From a picture of any size to the numbers a model takes: cut out, resized, varied, normalised. What is done to a
// sample is a function of (seed, epoch, index) alone, whatever thread does it.
#pragma once
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "hyperion/images/augment_config.h"
#include "hyperion/images/draws.h"
#include "hyperion/images/image_processing.h"
#include "hyperion/images/pixels.h"
#include "hyperion/images/resample.h"

namespace hyperion::images {

class Augmenter {
 public:
  // Images come out `side` pixels high and wide. Without `training` nothing is random. `own` is what
  // augment.normalise = "auto" stands for.
  Augmenter(const AugmentConfig& config, int64_t side, uint64_t seed, bool training, const Normalisation& own);

  // Writes the image channel by channel and row by row; `out` holds 3 * side * side numbers. Any thread.
  void apply(const Pixels& image, int64_t index, int64_t epoch, std::span<float> out) const;
  // The same from the bytes of a JPEG or PNG file, of which only what is seen is decoded. Throws CorruptError.
  void apply(std::string_view file, const std::string& name, int64_t index, int64_t epoch, std::span<float> out) const;

  // What is done without training to images of another size than asked for.
  ImageProcessing processing() const {
    return {side_, shorter_side(), config_.filter == FilterChoice::bicubic, normalisation_};
  }

  // The same as `apply`, step by step and each step plain: what the fast ways are tested against.
  Pixels varied(const Pixels& image, int64_t index, int64_t epoch) const;
  void normalise(const Pixels& image, std::span<float> out) const;

 private:
  // What is seen of an image: a part, resized, moved over black, mirrored.
  struct View {
    Resize resize;
    int64_t right = 0, down = 0;
    bool mirrored = false;
  };
  View view(ImageSize whole, Draws& draws) const;
  Box random_box(ImageSize whole, Draws& draws) const;
  Draws draws(int64_t index, int64_t epoch) const { return {key_, index, epoch}; }
  void vary(Pixels& image, const View& view, Draws& draws) const;
  void write(const Pixels& image, const View& view, Draws& draws, std::span<float> out) const;
  void normalise_row(const uint8_t* rgb, int64_t y, bool mirrored, std::span<float> out) const;
  int64_t shorter_side() const;  // that the middle is cut out of

  AugmentConfig config_;
  int64_t side_;
  base::StreamKey key_;
  bool training_, recolors_;
  Normalisation normalisation_;
  std::array<std::array<float, 256>, 3> table_;  // of each channel: level to number
};

}  // namespace hyperion::images
