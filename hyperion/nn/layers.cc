#include "hyperion/nn/layers.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rsqrt.h>

namespace hyperion::nn {

// register_parameter keeps the handle that `to` and `set_data` act on, so these copies stay the same parameter.
LinearInOut::LinearInOut(int64_t in, int64_t out, Init init)
    : weight_(parameter("weight", {in, out}, init)), bias_(parameter("bias", {out}, Init::filled(0))) {}

at::Tensor LinearInOut::forward(const at::Tensor& input, Pass&) {
  auto shape = input.sizes().vec();
  shape.back() = bias_.size(0);
  return at::addmm(bias_, input.reshape({-1, input.size(-1)}), weight_).view(shape);
}

Linear::Linear(int64_t in, int64_t out, bool with_bias, Init init)
    : weight_(parameter("weight", {out, in}, init)),
      bias_(with_bias ? parameter("bias", {out}, Init::filled(0)) : at::Tensor()) {}

at::Tensor Linear::forward(const at::Tensor& input, Pass&) {
  return at::linear(input, weight_, bias_.defined() ? std::optional(bias_) : std::nullopt);
}

Embedding::Embedding(int64_t count, int64_t width, Init init) : weight_(parameter("weight", {count, width}, init)) {}

at::Tensor Embedding::forward(const at::Tensor& ids, Pass&) { return at::embedding(weight_, ids); }

RmsNorm::RmsNorm(int64_t width, double epsilon)
    : weight_(parameter("weight", {width}, Init::filled(1))), epsilon_(epsilon) {}

at::Tensor RmsNorm::forward(const at::Tensor& input, Pass&) {
  const auto wide = input.to(at::kFloat);
  const auto scale = at::rsqrt(wide.square().mean(-1, /*keepdim=*/true).add(epsilon_));
  return wide.mul(scale).to(input.scalar_type()).mul(weight_);
}

LayerNorm::LayerNorm(int64_t width, double epsilon)
    : weight_(parameter("weight", {width}, Init::filled(1))),
      bias_(parameter("bias", {width}, Init::filled(0))),
      epsilon_(epsilon) {}

at::Tensor LayerNorm::forward(const at::Tensor& input, Pass&) {
  return at::layer_norm(input, {input.size(-1)}, weight_, bias_, epsilon_);
}

}  // namespace hyperion::nn
