#include "hyperion/nn/layers.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/layer_norm.h>

namespace hyperion::nn {

// register_parameter keeps the handle that `to` and `set_data` act on, so these copies stay the same parameter.
LinearInOut::LinearInOut(int64_t in, int64_t out, Init init)
    : weight_(parameter("weight", {in, out}, init)), bias_(parameter("bias", {out}, Init::filled(0))) {}

at::Tensor LinearInOut::forward(const at::Tensor& input, Pass&) {
  auto shape = input.sizes().vec();
  shape.back() = bias_.size(0);
  return at::addmm(bias_, input.reshape({-1, input.size(-1)}), weight_).view(shape);
}

Embedding::Embedding(int64_t count, int64_t width, Init init) : weight_(parameter("weight", {count, width}, init)) {}

at::Tensor Embedding::forward(const at::Tensor& ids, Pass&) { return at::embedding(weight_, ids); }

LayerNorm::LayerNorm(int64_t width, double epsilon)
    : weight_(parameter("weight", {width}, Init::filled(1))),
      bias_(parameter("bias", {width}, Init::filled(0))),
      epsilon_(epsilon) {}

at::Tensor LayerNorm::forward(const at::Tensor& input, Pass&) {
  return at::layer_norm(input, {input.size(-1)}, weight_, bias_, epsilon_);
}

}  // namespace hyperion::nn
