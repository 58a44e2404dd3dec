#include <algorithm>
#include <array>
#include <cmath>

#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"
#include "hyperion/base/random.h"
#include "hyperion/data/images.h"

namespace hyperion::data {
namespace {

constexpr int64_t kKinds = 10;
constexpr const char* kKindNames[kKinds] = {
    "disc",          "ring",          "square",           "frame",   "triangle", "cross",
    "upright cross", "lying stripes", "standing stripes", "chequers"};

// Whether the point (x, y), in units of the shape's size and in [-1, 1] inside its box, belongs to the shape.
bool inside(int64_t kind, float x, float y) {
  const float ax = std::abs(x), ay = std::abs(y), radius = std::hypot(x, y);
  const auto stripe = [](float v) { return static_cast<int>(std::floor((v + 1) * 2.5f)) % 2 == 0; };
  if (ax > 1 || ay > 1) return false;
  switch (kind) {
    case 0:
      return radius < 1;  // disc
    case 1:
      return radius < 1 && radius > 0.6f;  // ring
    case 2:
      return true;  // square
    case 3:
      return ax > 0.6f || ay > 0.6f;  // frame
    case 4:
      return y > 2 * ax - 1;  // triangle
    case 5:
      return std::abs(ax - ay) < 0.3f;  // diagonal cross
    case 6:
      return ax < 0.3f || ay < 0.3f;  // upright cross
    case 7:
      return stripe(y);  // lying stripes
    case 8:
      return stripe(x);  // standing stripes
    default:
      return stripe(x) == stripe(y);  // chequers
  }
}

class ShapeSource final : public ImageSource {
 public:
  ShapeSource(uint64_t seed, int64_t samples, int64_t side, bool held_out)
      : key_(base::stream_key(seed, held_out ? "data.shapes.held_out" : "data.shapes.train")),
        samples_(samples),
        side_(side) {}

  int64_t samples() const override { return samples_; }
  images::ImageShape shape() const override { return {3, side_, side_}; }
  int64_t classes() const override { return kKinds; }
  std::vector<std::string> class_names() const override { return {kKindNames, kKindNames + kKinds}; }

  int64_t read(int64_t index, int64_t, std::span<float> out) const override {
    const uint64_t first = static_cast<uint64_t>(index) << 24;  // numbers of one image never reach the next one's
    const auto draw = [&](uint64_t place, float low, float high) {
      return low + (high - low) * base::unit_float(base::random_bits(key_, first + place));
    };
    const auto kind = static_cast<int64_t>(base::random_below(key_, first >> 3, kKinds, /*step=*/1));
    const auto side = static_cast<float>(side_);
    const float size = draw(0, 0.2f, 0.4f) * side;
    const float x = draw(1, size, side - size), y = draw(2, size, side - size);
    std::array<float, 3> front, back;
    for (size_t c = 0; c < 3; ++c) front[c] = draw(3 + c, 0.5f, 2.0f), back[c] = draw(6 + c, -2.0f, -0.5f);
    uint64_t place = 16;
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t row = 0; row < side_; ++row)
        for (int64_t column = 0; column < side_; ++column, ++place) {
          const bool on = inside(kind, (static_cast<float>(column) - x) / size, (static_cast<float>(row) - y) / size);
          out[(c * side_ + row) * side_ + column] = (on ? front : back)[c] + draw(place, -0.5f, 0.5f);
        }
    return kind;
  }

 private:
  base::StreamKey key_;
  int64_t samples_, side_;
};

}  // namespace

Split open_shapes(const DataConfig& config, int64_t side, uint64_t seed) {
  Split split;
  const auto held_out =
      std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(config.images) * config.validation));
  split.train_images = std::make_unique<ShapeSource>(seed, config.images, side, false);
  split.validation_images = std::make_unique<ShapeSource>(seed, held_out, side, true);
  split.digest =
      base::hash_hex(base::format("shapes seed={} side={} images={} held_out={}", seed, side, config.images, held_out));
  return split;
}

}  // namespace hyperion::data
