#include "hyperion/blocks/fp8_gain.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>

#include <map>
#include <mutex>

#include "hyperion/blocks/fp8.h"
#include "hyperion/device/gpu_time.h"
#include "hyperion/device/graph.h"
#include "hyperion/kernels/gemm.h"

namespace hyperion::blocks {
namespace {

Fp8Gain measured(const LinearShape& s, c10::Device device) {
  const at::NoGradGuard no_grad;
  const auto options = at::TensorOptions().device(device).dtype(at::kBFloat16);
  const auto x = at::randn({s.rows, s.in}, options), above = at::randn({s.rows, s.out}, options),
             weight = at::randn({s.in_out ? s.in : s.out, s.in_out ? s.out : s.in}, options);
  Fp8Gain gain;
  gain.wide = device::microseconds_of(device, [&] {
    kernels::gemm({.a = x, .b = weight, .transpose_b = !s.in_out});
    kernels::gemm({.a = above, .b = weight, .transpose_b = s.in_out});
    kernels::weight_gradient(x, above, s.in_out);
  });
  Fp8Scales scales(1, device, {});
  const Fp8Linear map(scales, 0);
  Fp8Matrix x8, above8, weight8;
  const auto round = [&] {
    const Fp8Forms both{.straight = true, .transposed = true};
    x8 = fp8_matrix(x, map, Fp8Scales::input, both);
    above8 = fp8_matrix(above, map, Fp8Scales::gradient, both);
    weight8 = fp8_matrix(weight, map, Fp8Scales::weight, both);
  };
  round();
  scales.next_step();
  gain.rounding = device::microseconds_of(device, round);
  const auto &forward = s.in_out ? weight8.transposed : weight8.straight,
             &backward = s.in_out ? weight8.straight : weight8.transposed;
  gain.narrow = device::microseconds_of(device, [&] {
    fp8_gemm({x8.straight, x8.inverse, forward, weight8.inverse, {}, {}, /*fast=*/true}, at::kBFloat16);
    fp8_gemm({above8.straight, above8.inverse, backward, weight8.inverse}, at::kBFloat16);
    fp8_gemm({x8.transposed, x8.inverse, above8.transposed, above8.inverse}, at::kBFloat16);
  });
  return gain;
}

}  // namespace

Fp8Gain fp8_gain(const LinearShape& shape, c10::Device device) {
  static std::mutex mutex;
  static std::map<LinearShape, Fp8Gain> known;
  if (!device.is_cuda()) return {};
  const std::lock_guard lock(mutex);
  const auto found = known.find(shape);
  if (found != known.end()) return found->second;
  if (device::recording()) return {};
  return known[shape] = measured(shape, device);
}

}  // namespace hyperion::blocks
