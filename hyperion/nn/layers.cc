#include "hyperion/nn/layers.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>

#include "hyperion/blocks/later_gradients.h"
#include "hyperion/kernels/embedding.h"
#include "hyperion/nn/shards.h"

namespace hyperion::nn {

Embedding::Embedding(int64_t count, int64_t width, Init init)
    : count_(count), weight_(parameter("weight", {count, width}, init)) {}

at::Tensor Embedding::forward(const at::Tensor& ids, Pass& pass) {
  if (pass.shards != nullptr && weight_.size(0) < count_) return embed_in_shards(weight_, count_, ids, pass);
  return pass.reference ? at::embedding(weight(), ids) : kernels::embedding(weight(), ids);
}

at::Tensor Embedding::as_output(const at::Tensor& hidden, const PassSettings& pass) const {
  return blocks::plain_linear(hidden, weight(), {}, /*in_out=*/false, pass.later);
}

void Embedding::train_rows(const std::vector<int64_t>& tokens) {
  rows_ = register_module(kTokenRows, std::make_shared<TokenRows>(tokens, weight_));
}

void Embedding::merge_rows() {
  if (!rows_) return;
  const at::NoGradGuard no_grad;
  weight_.copy_(weight());
  unregister_module(kTokenRows);
  rows_ = nullptr;
}

at::Tensor embed_at(Embedding& tokens, Embedding& positions, const at::Tensor& ids, int64_t first, Pass& pass) {
  // One pass over what comes of it instead of three.
  if (!pass.reference && !pass.positions.defined() && pass.shards == nullptr)
    return kernels::embedding_at(tokens.weight(), ids, positions.weight(), first);
  const auto places = pass.positions.defined() ? pass.positions : at::arange(first, first + ids.size(1), ids.options());
  return run(tokens, ids, pass) +
         run(positions, own_tokens(places.dim() == 1 ? places.unsqueeze(0) : places, pass), pass);
}

RmsNorm::RmsNorm(int64_t width, double epsilon)
    : weight_(parameter("weight", {width}, Init::filled(1))), epsilon_(epsilon) {}

at::Tensor RmsNorm::forward(const at::Tensor& input, Pass& pass) {
  return pass.reference ? kernels::norm_reference(input, weights()) : kernels::norm(input, weights());
}

LayerNorm::LayerNorm(int64_t width, double epsilon)
    : weight_(parameter("weight", {width}, Init::filled(1))),
      bias_(parameter("bias", {width}, Init::filled(0))),
      epsilon_(epsilon) {}

at::Tensor LayerNorm::forward(const at::Tensor& input, Pass& pass) {
  // PyTorch's own keeps no more than ours, and is as fast on the CPU.
  return pass.reference || !input.is_cuda() ? kernels::norm_reference(input, weights())
                                            : kernels::norm(input, weights());
}

}  // namespace hyperion::nn
