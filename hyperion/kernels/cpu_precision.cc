#include "hyperion/kernels/cpu_precision.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>

#include <algorithm>

#include "hyperion/base/clock.h"
#include "hyperion/kernels/attention.h"
#include "hyperion/kernels/gelu.h"

namespace hyperion::kernels {
namespace {

constexpr int64_t kTrialRows = 2, kTrialLength = 48, kTrialHeads = 4, kTrialWidth = 128;
constexpr int kTrials = 3;  // the first prepares what the others use

double seconds_of_block(at::ScalarType type) {
  const auto weight = [&](int64_t out, int64_t in) {
    return at::randn({out, in}).mul(0.02).to(type).set_requires_grad(true);
  };
  const auto input = at::randn({kTrialRows, kTrialLength, kTrialWidth}).to(type);
  const auto inward = weight(3 * kTrialWidth, kTrialWidth), outward = weight(kTrialWidth, kTrialWidth);
  double best = 1e9;
  for (int trial = 0; trial < kTrials; ++trial) {
    const double begun = base::real_clock().seconds();
    const auto heads = at::linear(input, inward)
                           .view({kTrialRows, kTrialLength, 3, kTrialHeads, kTrialWidth / kTrialHeads})
                           .permute({2, 0, 3, 1, 4});
    const auto seen = causal_attention(heads[0], heads[1], heads[2]);
    gelu(at::linear(seen.transpose(1, 2).reshape(input.sizes()), outward)).sum().backward();
    best = std::min(best, base::real_clock().seconds() - begun);
  }
  return std::max(best, 1e-9);
}

}  // namespace

double cpu_slowdown(c10::ScalarType type) { return seconds_of_block(type) / seconds_of_block(at::kFloat); }

}  // namespace hyperion::kernels
