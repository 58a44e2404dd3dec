// Every step in fp32 and in the published models' order: at a far place one rounding of a frequency is a visible angle.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "hyperion/blocks/rope.h"

namespace hyperion::blocks {
namespace {

at::Tensor exponents_of(int64_t head_width, at::Device device) {
  const auto pairs = at::arange(0, head_width, 2, at::TensorOptions().dtype(at::kLong).device(device));
  return pairs.to(at::kFloat).div(static_cast<double>(head_width));
}

at::Tensor blend_low_frequencies(const at::Tensor& frequencies, const RopeConfig& config) {
  const auto context = static_cast<double>(config.original_context);
  const auto wavelength = at::pow(frequencies, -1).mul(2 * std::numbers::pi);
  const auto is_long = wavelength.gt(context / config.low_frequency_factor);
  const auto is_short = wavelength.lt(context / config.high_frequency_factor);
  const auto slowed = frequencies.div(config.factor);
  const auto kept = at::pow(wavelength, -1)
                        .mul(context)
                        .sub(config.low_frequency_factor)
                        .div(config.high_frequency_factor - config.low_frequency_factor);
  const auto blended = (1 - kept) * slowed + kept * frequencies;
  return at::where(is_long, slowed, at::where(is_short, frequencies, blended));
}

// Pairs that make `turns` turns over the original context stand here, counted from the fastest.
double pair_of(double turns, int64_t head_width, const RopeConfig& config) {
  const auto context = static_cast<double>(config.original_context);
  return static_cast<double>(head_width) * std::log(context / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(config.theta));
}

at::Tensor blend_by_turns(const at::Tensor& wavelengths, int64_t head_width, const RopeConfig& config) {
  double low = pair_of(config.fast_turns, head_width, config), high = pair_of(config.slow_turns, head_width, config);
  if (config.whole_pairs) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, static_cast<double>(head_width - 1));
  if (low == high) high += 0.001;
  const auto pairs = at::arange(head_width / 2, wavelengths.options());
  const auto kept = 1 - pairs.sub(low).div(high - low).clamp(0, 1);
  return at::pow(wavelengths.mul(config.factor), -1) * (1 - kept) + at::pow(wavelengths, -1) * kept;
}

}  // namespace

at::Tensor rope_frequencies(int64_t head_width, const RopeConfig& config) {
  const auto wavelengths = at::pow(config.theta, exponents_of(head_width, at::kCPU));
  const auto frequencies = at::pow(wavelengths, -1);
  switch (config.scaling) {
    case RopeScaling::linear:
      return frequencies.div(config.factor);
    case RopeScaling::llama3:
      return blend_low_frequencies(frequencies, config);
    case RopeScaling::yarn:
      return blend_by_turns(wavelengths, head_width, config);
    default:
      return frequencies;
  }
}

at::Tensor rope_frequencies(int64_t head_width, const RopeConfig& config, const at::Tensor& length) {
  const auto context = static_cast<double>(config.original_context), width = static_cast<double>(head_width);
  const auto stretch = length.to(at::kFloat).mul(config.factor).div(context).sub(config.factor - 1);
  const auto theta = at::where(length.gt(config.original_context), stretch.pow(width / (width - 2)), 1.0)
                         .to(at::kFloat)
                         .mul(config.theta);
  return at::pow(at::pow(theta, exponents_of(head_width, length.device())), -1);
}

}  // namespace hyperion::blocks
