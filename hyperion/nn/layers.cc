#include "hyperion/nn/layers.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/layer_norm.h>

#include "hyperion/kernels/rms_norm.h"

namespace hyperion::nn {

Embedding::Embedding(int64_t count, int64_t width, Init init) : weight_(parameter("weight", {count, width}, init)) {}

at::Tensor Embedding::forward(const at::Tensor& ids, Pass&) { return at::embedding(weight_, ids); }

RmsNorm::RmsNorm(int64_t width, double epsilon)
    : weight_(parameter("weight", {width}, Init::filled(1))), epsilon_(epsilon) {}

at::Tensor RmsNorm::forward(const at::Tensor& input, Pass& pass) {
  return pass.reference ? kernels::rms_norm_reference(input, weight_, epsilon_)
                        : kernels::rms_norm(input, weight_, epsilon_);
}

LayerNorm::LayerNorm(int64_t width, double epsilon)
    : weight_(parameter("weight", {width}, Init::filled(1))),
      bias_(parameter("bias", {width}, Init::filled(0))),
      epsilon_(epsilon) {}

at::Tensor LayerNorm::forward(const at::Tensor& input, Pass&) {
  return at::layer_norm(input, {input.size(-1)}, weight_, bias_, epsilon_);
}

}  // namespace hyperion::nn
