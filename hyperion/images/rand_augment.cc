#include "hyperion/images/rand_augment.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "hyperion/images/image_operations.h"

namespace hyperion::images {
namespace {

struct Operation {
  bool signed_strength;
  void (*apply)(Pixels& image, double strength, double sign);  // strength in 0 .. 1
};

constexpr double kColour = 0.9, kSlope = 0.3, kDegrees = 30, kShift = 150.0 / 331.0;

constexpr std::array<Operation, 14> kOperations = {{
    {false, [](Pixels&, double, double) {}},
    {true, [](Pixels& image, double strength, double sign) { shear_across(image, sign * kSlope * strength); }},
    {true, [](Pixels& image, double strength, double sign) { shear_down(image, sign * kSlope * strength); }},
    {true,
     [](Pixels& image, double strength, double sign) {
       shift(image, static_cast<int64_t>(sign * kShift * strength * static_cast<double>(image.size.width)), 0);
     }},
    {true,
     [](Pixels& image, double strength, double sign) {
       shift(image, 0, static_cast<int64_t>(sign * kShift * strength * static_cast<double>(image.size.height)));
     }},
    {true, [](Pixels& image, double strength, double sign) { rotate(image, sign * kDegrees * strength); }},
    {true, [](Pixels& image, double strength, double sign) { brighten(image, 1 + sign * kColour * strength); }},
    {true, [](Pixels& image, double strength, double sign) { saturate(image, 1 + sign * kColour * strength); }},
    {true, [](Pixels& image, double strength, double sign) { contrast(image, 1 + sign * kColour * strength); }},
    {true, [](Pixels& image, double strength, double sign) { sharpen(image, 1 + sign * kColour * strength); }},
    {false, [](Pixels& image, double strength,
               double) { posterize(image, 8 - static_cast<int>(std::nearbyint(4 * strength))); }},
    {false, [](Pixels& image, double strength, double) { solarize(image, 255 * (1 - strength)); }},
    {false, [](Pixels& image, double, double) { stretch_contrast(image); }},
    {false, [](Pixels& image, double, double) { equalize(image); }},
}};

}  // namespace

void jitter(Pixels& image, const Jitter& most, Draws& draws) {
  std::array<int, 4> order = {0, 1, 2, 3};
  for (int64_t i = 3; i > 0; --i) std::swap(order[i], order[draws.below(i + 1)]);
  const auto factor = [&](double reach) { return draws.uniform(std::max(0.0, 1 - reach), 1 + reach); };
  for (const int which : order) {
    if (which == 0 && most.brightness > 0) brighten(image, factor(most.brightness));
    if (which == 1 && most.contrast > 0) contrast(image, factor(most.contrast));
    if (which == 2 && most.saturation > 0) saturate(image, factor(most.saturation));
    if (which == 3 && most.hue > 0) turn_hue(image, draws.uniform(-most.hue, most.hue));
  }
}

void rand_augment(Pixels& image, int64_t operations, int64_t magnitude, Draws& draws) {
  const double strength = static_cast<double>(magnitude) / static_cast<double>(kMostMagnitude);
  for (int64_t i = 0; i < operations; ++i) {
    const Operation& operation = kOperations[draws.below(static_cast<int64_t>(kOperations.size()))];
    operation.apply(image, strength, operation.signed_strength && draws.below(2) == 1 ? -1 : 1);
  }
}

}  // namespace hyperion::images
