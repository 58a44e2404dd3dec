#include "hyperion/nn/feed_forward.h"

#include "hyperion/nn/activation.h"

namespace hyperion::nn {

GatedFeedForward::GatedFeedForward(const GatedShape& shape) {
  const auto linear = [&](int64_t in, int64_t out, Init init) {
    return std::make_shared<Linear>(in, out, shape.bias, init);
  };
  gate_ = register_module(shape.gate, linear(shape.width, shape.inner, shape.init));
  up_ = register_module(shape.up, linear(shape.width, shape.inner, shape.init));
  down_ = register_module(shape.down, linear(shape.inner, shape.width, shape.residual_init));
}

at::Tensor GatedFeedForward::forward(const at::Tensor& input, Pass& pass) {
  return run(*down_, gated_silu(run(*gate_, input, pass), run(*up_, input, pass), pass), pass);
}

at::Tensor GatedFeedForward::fused(const at::Tensor& residual, const kernels::NormWeights& norm) const {
  const auto [hidden, packed] = norm_linear(residual, norm, {gate_.get(), up_.get()});
  return activated_linear_residual(packed, Activation::gated_silu, *down_, hidden);
}

}  // namespace hyperion::nn
