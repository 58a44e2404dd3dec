// Random changes of color and shape, as torchvision's ColorJitter and RandAugment choose them.
#pragma once
#include "hyperion/images/augment_config.h"
#include "hyperion/images/draws.h"
#include "hyperion/images/pixels.h"

namespace hyperion::images {

// In a random order.
void jitter(Pixels& image, const Jitter& most, Draws& draws);

// `operations` of the fourteen, each as likely as another, at strength `magnitude` of kMostMagnitude.
void rand_augment(Pixels& image, int64_t operations, int64_t magnitude, Draws& draws);

}  // namespace hyperion::images
