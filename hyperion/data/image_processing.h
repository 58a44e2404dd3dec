// How an image becomes the numbers that a model takes, without anything random: what whoever uses the model must
// repeat.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "hyperion/data/resample.h"

namespace hyperion::data {

// Of values in 0 .. 1.
struct Normalisation {
  std::array<float, 3> mean, deviation;
  bool operator==(const Normalisation&) const = default;
};
inline constexpr Normalisation kImagenet = {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};
inline constexpr Normalisation kCifar = {{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}};
inline constexpr Normalisation kHalf = {{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}};

// Resized until its shorter side has `shorter` pixels; then the middle, `side` high and wide, is cut out. Where
// `shorter` is 0 the whole image is made to fit, whatever its sides.
struct ImageProcessing {
  int64_t side = 0, shorter = 0;
  bool bicubic = false;
  Normalisation normalisation = kImagenet;
};

// What is done to an image of that size; half a pixel goes to the left and up, as in transformers.
Resize resize_for(const ImageProcessing& processing, ImageSize whole);

// As transformers' preprocessor_config.json.
inline constexpr const char* kProcessorFile = "preprocessor_config.json";
std::string processor_json(const ImageProcessing& processing);
// Throws CorruptError, which begins with `place`, on what is not known here.
ImageProcessing parse_processor(const std::string& text, const std::string& place);

// The bytes of a JPEG or PNG file as 3 * side * side numbers, channel by channel and row by row.
void process_image(const ImageProcessing& processing, std::string_view bytes, const std::string& name,
                   std::span<float> out);

}  // namespace hyperion::data
