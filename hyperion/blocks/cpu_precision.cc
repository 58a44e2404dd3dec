#include "hyperion/blocks/cpu_precision.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>

#include <algorithm>

#include "hyperion/base/clock.h"
#include "hyperion/blocks/attention.h"
#include "hyperion/kernels/gelu.h"

namespace hyperion::blocks {
namespace {

constexpr int64_t kTrialHeadWidth = 32;
constexpr int kFewestTrials = 2, kMostTrials = 5;  // the first prepares what the others use
constexpr double kTrialSeconds = 0.25;             // no further trial after that

double seconds_of_block(at::ScalarType type, int64_t width, int64_t length) {
  const auto weight = [&](int64_t out, int64_t in) {
    return at::randn({out, in}).mul(0.02).to(type).set_requires_grad(true);
  };
  const auto input = at::randn({1, length, width}).to(type);
  const auto seeing = weight(3 * width, width), seen = weight(width, width), up = weight(4 * width, width),
             down = weight(width, 4 * width);
  const double first = base::real_clock().seconds();
  double best = 1e9;
  for (int trial = 0; trial < kMostTrials; ++trial) {
    if (trial >= kFewestTrials && base::real_clock().seconds() - first > kTrialSeconds) break;
    const double begun = base::real_clock().seconds();
    const auto heads = at::linear(input, seeing)
                           .view({1, length, 3, width / kTrialHeadWidth, kTrialHeadWidth})
                           .permute({2, 0, 3, 1, 4});
    const auto values = causal_attention(heads[0], heads[1], heads[2]).transpose(1, 2).reshape(input.sizes());
    at::linear(kernels::gelu(at::linear(at::linear(values, seen), up)), down).sum().backward();
    best = std::min(best, base::real_clock().seconds() - begun);
  }
  return std::max(best, 1e-9);
}

}  // namespace

double cpu_slowdown(c10::ScalarType type, int64_t width, int64_t length) {
  width = std::clamp<int64_t>(width / kTrialHeadWidth, 1, 512 / kTrialHeadWidth) * kTrialHeadWidth;
  length = std::clamp<int64_t>(length, 1, 128);
  return seconds_of_block(type, width, length) / seconds_of_block(at::kFloat, width, length);
}

}  // namespace hyperion::blocks
