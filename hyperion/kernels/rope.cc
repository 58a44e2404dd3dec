#include "hyperion/kernels/rope.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/where.h>

#include <numbers>

namespace hyperion::kernels {
namespace {

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

std::pair<at::Tensor, at::Tensor> tables(const at::Tensor& half, at::ScalarType type) {
  const auto angles = at::cat({half, half}, -1);
  return {angles.cos().to(type), angles.sin().to(type)};
}

}  // namespace

// Every step in fp32 and in the published models' order: at a far place one rounding of a frequency is a visible angle.
at::Tensor rope_frequencies(int64_t head_width, const RopeConfig& config) {
  const auto exponents = at::arange(0, head_width, 2, at::kLong).to(at::kFloat).div(static_cast<double>(head_width));
  const auto frequencies = at::pow(at::pow(config.theta, exponents), -1);
  switch (config.scaling) {
    case RopeScaling::linear:
      return frequencies.div(config.factor);
    case RopeScaling::llama3:
      return blend_low_frequencies(frequencies, config);
    default:
      return frequencies;
  }
}

std::pair<at::Tensor, at::Tensor> rope_tables(const at::Tensor& frequencies, int64_t first, int64_t length,
                                              at::ScalarType type) {
  const auto places = at::arange(first, first + length, frequencies.options());
  return tables(at::outer(places, frequencies), type);
}

std::pair<at::Tensor, at::Tensor> rope_tables(const at::Tensor& frequencies, const at::Tensor& places,
                                              at::ScalarType type) {
  return tables(places.to(at::kFloat).unsqueeze(1).unsqueeze(-1).mul(frequencies), type);
}

at::Tensor rope(const at::Tensor& input, const at::Tensor& cosines, const at::Tensor& sines) {
  const int64_t half = input.size(-1) / 2;
  const auto turned = at::cat({input.narrow(-1, half, half).neg(), input.narrow(-1, 0, half)}, -1);
  return input * cosines + turned * sines;
}

}  // namespace hyperion::kernels
