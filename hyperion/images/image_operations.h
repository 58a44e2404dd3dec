// Changes of a picture's colors and shape, each as torchvision does it to a Pillow image, and so as Pillow does it.
#pragma once
#include "hyperion/images/pixels.h"

namespace hyperion::images {

// Colors. A factor of 1 changes nothing; 0 gives black, an even grey, a grey picture, a blurred one.
void brighten(Pixels& image, double factor);
void contrast(Pixels& image, double factor);
void saturate(Pixels& image, double factor);
void sharpen(Pixels& image, double factor);
void turn_hue(Pixels& image, double turns);      // in [-0.5, 0.5]
void posterize(Pixels& image, int bits);         // keeps the highest bits of each channel
void solarize(Pixels& image, double threshold);  // inverts what is not below it
void stretch_contrast(Pixels& image);            // each channel from 0 to 255 ("autocontrast")
void equalize(Pixels& image);                    // each channel's histogram made even

// Geometry. Each pixel comes from the nearest; what comes from outside is black.
void shear_across(Pixels& image, double slope);
void shear_down(Pixels& image, double slope);
void shift(Pixels& image, int64_t right, int64_t down);
void rotate(Pixels& image, double degrees);  // against the clock, about the centre
void mirror(Pixels& image);

}  // namespace hyperion::images
