#include "hyperion/data/mix.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "hyperion/base/error.h"
#include "hyperion/images/draws.h"

namespace hyperion::data {
namespace {

double normal(images::Draws& draws) {
  const double radius = std::sqrt(-2 * std::log(draws.uniform(0, 1)));
  return radius * std::cos(2 * std::numbers::pi * draws.uniform(0, 1));
}

// The logarithm of a number of Gamma(shape, 1), by Marsaglia and Tsang (2000). A logarithm, since for small shapes most
// numbers are below what a double can hold.
double log_gamma_number(double shape, images::Draws& draws) {
  const double boost = shape < 1 ? std::log(draws.uniform(0, 1)) / shape : 0;
  const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal(draws), v = std::pow(1 + c * x, 3), u = draws.uniform(0, 1);
    if (v > 0 && std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return std::log(d * v) + boost;
  }
}

double beta_number(double alpha, images::Draws& draws) {
  const double one = log_gamma_number(alpha, draws), other = log_gamma_number(alpha, draws);
  return 1 / (1 + std::exp(other - one));
}

}  // namespace

std::vector<int64_t> BatchShare::positions() const {
  std::vector<int64_t> all;
  for (int64_t row = rank; row < rows; row += count) all.push_back(first + row);
  return all;
}

int64_t mix_partner(int64_t position, int64_t first, int64_t rows) {
  if (rows == 1) return position ^ 1;
  int64_t divisor = 2;
  while (rows % divisor != 0 && divisor * divisor < rows) ++divisor;
  if (rows % divisor != 0) divisor = rows;
  return first + (position - first + rows / divisor) % rows;
}

Mix mix_at(const MixConfig& config, images::ImageSize size, uint64_t seed, int64_t position) {
  if (!config.any()) return {};
  images::Draws draws(base::stream_key(seed, "data.mix"), position, 0);
  const bool cuts = config.mixup == 0 || (config.cutmix > 0 && draws.below(2) == 1);
  const double own = beta_number(cuts ? config.cutmix : config.mixup, draws);
  if (!cuts) return {.own = static_cast<float>(own), .box = {}};
  const double half = 0.5 * std::sqrt(1 - own);
  const auto cut = [&](int64_t length) {
    const int64_t centre = draws.below(length), reach = static_cast<int64_t>(half * static_cast<double>(length));
    return std::pair{std::max<int64_t>(centre - reach, 0), std::min(centre + reach, length)};
  };
  const auto [left, right] = cut(size.width);
  const auto [top, bottom] = cut(size.height);
  const images::Box box{left, top, right - left, bottom - top};
  if (box.width == 0 || box.height == 0) return {};
  const auto covered = static_cast<double>(box.width * box.height);
  return {.own = static_cast<float>(1 - covered / static_cast<double>(size.pixels())), .box = box};
}

MixPlan mix_plan(const MixConfig& config, images::ImageSize size, uint64_t seed, const BatchShare& share) {
  MixPlan plan{share.positions(), {}};
  const auto own = static_cast<int64_t>(plan.positions.size());
  for (int64_t row = 0; row < own; ++row) {
    const int64_t position = plan.positions[row], partner = mix_partner(position, share.first, share.rows);
    const int64_t place = partner - share.first - share.rank;
    const bool is_here = place >= 0 && place % share.count == 0 && place / share.count < own;
    Mix mix = mix_at(config, size, seed, position);
    mix.partner = is_here ? place / share.count : static_cast<int64_t>(plan.positions.size());
    if (!is_here) plan.positions.push_back(partner);  // no two rows have the same partner
    plan.mixes.push_back(mix);
  }
  return plan;
}

void mix_images(std::span<float> pixels, std::span<const float> others, const images::ImageShape& shape,
                std::span<const Mix> mixes) {
  const auto rows = static_cast<int64_t>(mixes.size()), count = shape.pixels(), width = shape.width;
  HYPERION_CHECK(static_cast<int64_t>(pixels.size()) == rows * count, "each image has its mix");
  for (const Mix& mix : mixes)
    HYPERION_CHECK(mix.partner < rows + static_cast<int64_t>(others.size()) / count, "each partner is there");
  // A row as it was is needed for whoever has it as a partner: a line of all images is kept at a time.
  std::vector<float> before(static_cast<size_t>(rows * width));
  for (int64_t at = 0; at < count; at += width) {
    const int64_t y = at / width % shape.height;
    for (int64_t row = 0; row < rows; ++row)
      std::copy_n(pixels.data() + row * count + at, width, before.data() + row * width);
    for (int64_t row = 0; row < rows; ++row) {
      const Mix& mix = mixes[row];
      const float* other =
          mix.partner < rows ? before.data() + mix.partner * width : others.data() + (mix.partner - rows) * count + at;
      float* out = pixels.data() + row * count + at;
      if (mix.box.width == 0) {
        for (int64_t x = 0; x < width; ++x) out[x] = mix.own * out[x] + (1 - mix.own) * other[x];
      } else if (y >= mix.box.top && y < mix.box.top + mix.box.height) {
        std::copy_n(other + mix.box.left, mix.box.width, out + mix.box.left);
      }
    }
  }
}

}  // namespace hyperion::data
