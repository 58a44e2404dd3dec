#include "hyperion/kernels/cpu_products.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <algorithm>

#include "hyperion/base/clock.h"

namespace hyperion::kernels {
namespace {

constexpr int64_t kTrialSide = 192;  // its shortest side keeps a slow CPU below some 50 ms
constexpr int kTrials = 3;           // the first prepares what the others use

// As a linear layer multiplies: the weight is [out, in].
double seconds_of_product(at::ScalarType type) {
  const auto input = at::ones({kTrialSide, kTrialSide}, type), weight = at::ones({kTrialSide, kTrialSide}, type);
  double best = 1e9;
  for (int trial = 0; trial < kTrials; ++trial) {
    const double begun = base::real_clock().seconds();
    at::mm(input, weight.t());
    best = std::min(best, base::real_clock().seconds() - begun);
  }
  return std::max(best, 1e-9);
}

}  // namespace

double product_slowdown(c10::ScalarType type) {
  const at::NoGradGuard no_grad;
  return seconds_of_product(type) / seconds_of_product(at::kFloat);
}

}  // namespace hyperion::kernels
