// How an image becomes the numbers that a model takes, without anything random: what whoever uses the model must
// repeat.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "hyperion/images/normalisation.h"
#include "hyperion/images/resample.h"

namespace hyperion::images {

inline constexpr int64_t kMostImageSide = 4096;  // as in model.image

// Resized until its shorter side has `shorter` pixels; then the middle, `side` high and wide, is cut out. Where
// `shorter` is 0 the whole image is made to fit, whatever its sides.
struct ImageProcessing {
  int64_t side = 0, shorter = 0;
  bool bicubic = false;
  Normalisation normalisation = kImagenet;
  bool operator==(const ImageProcessing&) const = default;
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

}  // namespace hyperion::images
