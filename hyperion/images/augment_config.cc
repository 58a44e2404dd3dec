#include "hyperion/images/augment_config.h"

#include "hyperion/base/config.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/images/normalisation.h"

namespace hyperion::images {

void describe(base::Settings& settings, AugmentConfig& config) {
  settings.section("augment", "how training images vary; validation images are resized and cut alone")
      .choice("crop", config.crop,
              "what is seen: the middle; a part of the image with a black margin; a random part, resized")
      .integer("padding", config.padding, {0, 1024}, "padded: width of the margin", "pixels")
      .real("least_area", config.least_area, {0.001, 1}, "resized: smallest part of the image's area")
      .real("least_ratio", config.least_ratio, {0.1, 1},
            "resized: smallest width to height; the largest is its inverse")
      .flag("flip", config.flip, "mirror every other image")
      .real("brightness", config.jitter.brightness, {0, 1}, "how far its factor may lie from 1")
      .real("contrast", config.jitter.contrast, {0, 1}, "how far its factor may lie from 1")
      .real("saturation", config.jitter.saturation, {0, 1}, "how far its factor may lie from 1")
      .real("hue", config.jitter.hue, {0, 0.5}, "how far colors may turn, of a whole turn")
      .integer("operations", config.operations, {0, 14}, "RandAugment: operations an image; 0: none")
      .integer("magnitude", config.magnitude, {0, kMostMagnitude}, "RandAugment: their strength")
      .real("mixup", config.mixup, {0, 10},
            "blend pairs of images and their labels: alpha of Beta(alpha, alpha); 0: none")
      .real("cutmix", config.cutmix, {0, 10}, "put a part of one image into another: likewise")
      .real("centre", config.centre, {0, 1},
            "part of the shorter side that the middle shows; 0: as model.from says, else 0.875")
      .choice("filter", config.filter, "for resizing; auto: that of model.from, else bilinear")
      .text("normalise", config.normalise,
            "mean and deviation of pixels: auto (those that model.from was trained on, else the data's), imagenet, "
            "cifar, half (from -1 to 1), none (from 0 to 1), or the numbers of red, green and blue: M,M,M/D,D,D");
}

void check(const AugmentConfig& config) {
  if (config.centre > 0 && config.centre < kLeastCentre)
    throw base::ConfigError(base::format("augment.centre = {} shows too little of an image", config.centre),
                            base::format("take {} or more; 0 leaves it to model.from", kLeastCentre));
  if (config.normalise != "auto" && !parse_normalisation(config.normalise))
    throw base::ConfigError(
        base::format("augment.normalise = \"{}\" gives no mean and deviation of pixels", config.normalise),
        "it is auto, imagenet, cifar, half, none, or numbers as 0.48,0.46,0.41/0.27,0.26,0.28: three means, then three "
        "deviations above 0");
  if (config.crop != Crop::padded && config.padding != AugmentConfig{}.padding)
    throw base::ConfigError(base::format("augment.padding is set but augment.crop is \"{}\", which has no margin",
                                         base::word_of(config.crop)),
                            "add --augment.crop=padded, or leave augment.padding out");
  if (config.crop == Crop::padded && config.padding == 0)
    throw base::ConfigError("augment.crop = \"padded\" with augment.padding = 0 moves nothing",
                            "raise augment.padding, or set augment.crop = \"none\"");
}

bool recolors(const AugmentConfig& config) {
  const Jitter& most = config.jitter;
  return config.operations > 0 || most.brightness + most.contrast + most.saturation + most.hue > 0;
}

bool varies(const AugmentConfig& config) {
  return config.crop != Crop::none || config.flip || recolors(config) || config.mixup + config.cutmix > 0;
}

}  // namespace hyperion::images
