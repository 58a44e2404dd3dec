// The settings of [augment].
#pragma once
#include <array>
#include <cstdint>
#include <string>

namespace hyperion::base {
class Settings;
}

namespace hyperion::images {

struct Jitter {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;  // how far a factor may lie from 1, or a turn from 0
};

inline constexpr int64_t kMostMagnitude = 30;  // of RandAugment
inline constexpr double kCentre = 0.875, kLeastCentre = 0.1;

enum class Crop {
  none,     // the middle
  padded,   // a part of the image with a black margin
  resized,  // a random part, resized
};
constexpr auto words_of(Crop) { return std::array{"none", "padded", "resized"}; }

enum class FilterChoice { automatic, bilinear, bicubic };  // automatic: that of model.from, else bilinear
constexpr auto words_of(FilterChoice) { return std::array{"auto", "bilinear", "bicubic"}; }

struct AugmentConfig {
  Crop crop = Crop::none;
  FilterChoice filter = FilterChoice::automatic;
  std::string normalise = "auto";
  int64_t padding = 4, operations = 0, magnitude = 9;
  double least_area = 0.08, least_ratio = 0.75;
  double centre = 0;             // 0: kCentre, or what model.from was trained on
  double mixup = 0, cutmix = 0;  // of a whole batch: data/mix.h
  bool flip = false;
  Jitter jitter;
};
void describe(base::Settings& settings, AugmentConfig& config);
void check(const AugmentConfig& config);
bool varies(const AugmentConfig& config);    // whether it changes training images at all
bool recolors(const AugmentConfig& config);  // by more than cutting and mirroring

}  // namespace hyperion::images
