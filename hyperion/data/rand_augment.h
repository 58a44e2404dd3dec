// Random changes of colour and shape, as torchvision's ColorJitter and RandAugment choose them.
#pragma once
#include "hyperion/data/augment_config.h"
#include "hyperion/data/draws.h"
#include "hyperion/data/pixels.h"

namespace hyperion::data {

// In a random order.
void jitter(Pixels& image, const Jitter& most, Draws& draws);

// `operations` of the fourteen, each as likely as another, at strength `magnitude` of kMostMagnitude.
void rand_augment(Pixels& image, int64_t operations, int64_t magnitude, Draws& draws);

}  // namespace hyperion::data
