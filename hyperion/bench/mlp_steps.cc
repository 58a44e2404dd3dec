#include "hyperion/bench/operation_shapes.h"
#include "hyperion/kernels/activations.h"
#include "hyperion/kernels/dropout.h"
#include "hyperion/kernels/gemm.h"
#include "hyperion/kernels/norm.h"

namespace hyperion::bench {

using kernels::Activation;

MlpSteps mlp_steps(const OperationPlace& place, double dropout) {
  const auto mlp = mlp_of(place);
  const auto x = random(place, {mlp.tokens, mlp.width}), above = random(place, {mlp.tokens, mlp.width});
  const kernels::NormWeights norm{random(place, {mlp.width}), random(place, {mlp.width}), 1e-5};
  const auto up = matrix(place, mlp.inner, mlp.width).detach(), down = matrix(place, mlp.width, mlp.inner).detach();
  const auto up_bias = random(place, {mlp.inner}), down_bias = random(place, {mlp.width});
  const auto normal = kernels::normalize(x, norm);
  const auto inner = random(place, {mlp.tokens, mlp.inner}), active = kernels::activate(inner, Activation::gelu_tanh);
  const auto of_inner = random(place, {mlp.tokens, mlp.inner});
  MlpSteps steps{base::format("{} x {} -> {}", mlp.tokens, mlp.width, mlp.inner), {}};
  const auto add = [&](const char* pass, const char* name, std::function<void()> work) {
    steps.list.push_back({pass, name, std::move(work)});
  };
  add("forward", "norm", [=] { kernels::normalize(x, norm); });
  add("forward", "product up, bias",
      [=] { kernels::gemm({.a = normal.output, .b = up, .transpose_b = true, .bias = up_bias}); });
  add("forward", "gelu", [=] { kernels::activate(inner, Activation::gelu_tanh); });
  const kernels::RandomPlace where{base::stream_key(1, "bench"), 1, 0};
  if (dropout == 0) {
    add("forward", "product down, bias, residual",
        [=] { kernels::gemm({.a = active, .b = down, .transpose_b = true, .bias = down_bias, .added = x}); });
  } else {
    add("forward", "product down", [=] { kernels::gemm({.a = active, .b = down, .transpose_b = true}); });
    add("forward", "bias, dropout, residual",
        [=] { kernels::bias_dropout_residual(above, down_bias, x, dropout, where); });
    add("backward", "dropout", [=] { kernels::dropout(above, dropout, where); });
    add("backward", "bias down", [=] { kernels::column_sums(above); });
  }
  add("backward", "product: of gelu", [=] { kernels::gemm({.a = above, .b = down}); });
  add("backward", "gelu, its value again, bias",
      [=] { kernels::activation_gradients(inner, of_inner, Activation::gelu_tanh, {.value = true, .sums = true}); });
  add("backward", "product: weight down", [=] { kernels::gemm({.a = above, .b = active, .transpose_a = true}); });
  add("backward", "product: of norm", [=] { kernels::gemm({.a = of_inner, .b = up}); });
  add("backward", "norm, its value again, residual, bias",
      [=] { kernels::norm_gradients(x, norm, normal.statistics, above, above, {.output = true, .sums = true}); });
  add("backward", "product: weight up",
      [=] { kernels::gemm({.a = of_inner, .b = normal.output, .transpose_a = true}); });
  return steps;
}

}  // namespace hyperion::bench
