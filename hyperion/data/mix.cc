#include "hyperion/data/mix.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "hyperion/base/error.h"
#include "hyperion/data/draws.h"

namespace hyperion::data {
namespace {

double normal(Draws& draws) {
  const double radius = std::sqrt(-2 * std::log(draws.uniform(0, 1)));
  return radius * std::cos(2 * std::numbers::pi * draws.uniform(0, 1));
}

// The logarithm of a number of Gamma(shape, 1), by Marsaglia and Tsang (2000). A logarithm, since for small shapes most
// numbers are below what a double can hold.
double log_gamma_number(double shape, Draws& draws) {
  const double boost = shape < 1 ? std::log(draws.uniform(0, 1)) / shape : 0;
  const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal(draws), v = std::pow(1 + c * x, 3), u = draws.uniform(0, 1);
    if (v > 0 && std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return std::log(d * v) + boost;
  }
}

double beta_number(double alpha, Draws& draws) {
  const double one = log_gamma_number(alpha, draws), other = log_gamma_number(alpha, draws);
  return 1 / (1 + std::exp(other - one));
}

}  // namespace

Mix mix_of(const MixConfig& config, ImageSize size, uint64_t seed, int64_t step, int64_t row, int64_t rows) {
  const int64_t partner = row ^ 1;
  if (partner >= rows || config.mixup + config.cutmix == 0) return {row, 1, {}};
  Draws draws(base::stream_key(seed, "data.mix"), row, step);
  const bool cuts = config.mixup == 0 || (config.cutmix > 0 && draws.below(2) == 1);
  const double own = beta_number(cuts ? config.cutmix : config.mixup, draws);
  if (!cuts) return {partner, static_cast<float>(own), {}};
  const double half = 0.5 * std::sqrt(1 - own);
  const auto cut = [&](int64_t length) {
    const int64_t centre = draws.below(length), reach = static_cast<int64_t>(half * static_cast<double>(length));
    return std::pair{std::max<int64_t>(centre - reach, 0), std::min(centre + reach, length)};
  };
  const auto [left, right] = cut(size.width);
  const auto [top, bottom] = cut(size.height);
  const Box box{left, top, right - left, bottom - top};
  if (box.width == 0 || box.height == 0) return {row, 1, {}};
  const auto covered = static_cast<double>(box.width * box.height);
  return {partner, static_cast<float>(1 - covered / static_cast<double>(size.pixels())), box};
}

std::vector<Mix> mixes_of(const MixConfig& config, ImageSize size, uint64_t seed, int64_t step, int64_t rows) {
  std::vector<Mix> mixes;
  for (int64_t row = 0; row < rows; ++row) mixes.push_back(mix_of(config, size, seed, step, row, rows));
  return mixes;
}

void mix_images(std::span<float> pixels, const ImageShape& shape, std::span<const Mix> mixes) {
  const int64_t count = shape.pixels();
  HYPERION_CHECK(pixels.size() == mixes.size() * static_cast<size_t>(count), "each image has its mix");
  std::vector<float> line(static_cast<size_t>(shape.width));
  // The row as it was is needed for its partner: both are done together, line by line.
  const auto mixed = [&](const Mix& mix, int64_t y, const float* own, const float* other, float* out) {
    if (mix.box.width == 0) {
      for (int64_t x = 0; x < shape.width; ++x) out[x] = mix.own * own[x] + (1 - mix.own) * other[x];
      return;
    }
    const bool crosses = y >= mix.box.top && y < mix.box.top + mix.box.height;
    for (int64_t x = 0; x < shape.width; ++x)
      out[x] = crosses && x >= mix.box.left && x < mix.box.left + mix.box.width ? other[x] : own[x];
  };
  for (size_t row = 0; row + 1 < mixes.size(); row += 2) {
    float *one = pixels.data() + static_cast<int64_t>(row) * count, *other = one + count;
    for (int64_t at = 0; at < count; at += shape.width) {
      const int64_t y = at / shape.width % shape.height;
      mixed(mixes[row], y, one + at, other + at, line.data());
      mixed(mixes[row + 1], y, other + at, one + at, other + at);
      std::copy(line.begin(), line.end(), one + at);
    }
  }
}

}  // namespace hyperion::data
