// Random changes of colour and shape, as torchvision's ColorJitter and RandAugment choose them.
#pragma once
#include "hyperion/data/draws.h"
#include "hyperion/data/pixels.h"

namespace hyperion::data {

struct Jitter {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;  // how far a factor may lie from 1, or a turn from 0
};
// In a random order.
void jitter(Pixels& image, const Jitter& most, Draws& draws);

// `operations` of the fourteen, each as likely as another, at strength `magnitude` of 0 .. 30.
inline constexpr int64_t kMostMagnitude = 30;
void rand_augment(Pixels& image, int64_t operations, int64_t magnitude, Draws& draws);

}  // namespace hyperion::data
