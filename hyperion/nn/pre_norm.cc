#include "hyperion/nn/pre_norm.h"

#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include "hyperion/base/error.h"
#include "hyperion/blocks/block_ops.h"
#include "hyperion/nn/activation.h"
#include "hyperion/nn/fp8_linears.h"

namespace hyperion::nn {
namespace {

blocks::Linears linears_of(const Projections& list) {
  blocks::Linears linears{{}, {}, list.front()->in_out()};
  for (const auto& projection : list) {
    linears.weights.push_back(projection->weight());
    if (projection->bias().defined()) linears.biases.push_back(projection->bias());
  }
  return linears;
}

// What they share in 8 bits: the first one's numbers. Steps that learn nothing are made in the weights' own type.
blocks::Fp8Linear fp8_of(const Projection& first, const at::Tensor& input, const blocks::Linears& linears) {
  if (first.fp8() == nullptr || !c10::GradMode::is_enabled()) return {};
  const int64_t in = linears.weights[0].size(linears.in_out ? 0 : 1);
  int64_t out = 0;
  for (const auto& weight : linears.weights) out += weight.size(linears.in_out ? 1 : 0);
  return first.fp8()->take(first.fp8_index(), {input.numel() / input.size(-1), in, out, linears.in_out});
}

blocks::Linears linears_for(const Projections& list, const at::Tensor& input) {
  auto linears = linears_of(list);
  linears.fp8 = fp8_of(*list.front(), input, linears);
  return linears;
}

bool can_fuse(const Projections& list) {
  size_t biases = 0;
  for (const auto& projection : list) {
    if (!projection->whole()) return false;
    biases += projection->bias().defined() ? 1 : 0;
  }
  return biases == 0 || biases == list.size();
}

// linear(input, residual) is the fused operation. What is dropped is dropped after the bias, so that both are left to
// the pass that adds the residual.
template <class Linear>
at::Tensor onto_residual(const Projected& from, const std::shared_ptr<Projection>& last, const at::Tensor& input,
                         const Dropped& dropped, const Linear& linear) {
  auto linears = linears_for({last}, input);
  if (dropped.p == 0) return linear(linears, from.residual);
  linears.biases.clear();
  return kernels::bias_dropout_residual(linear(linears, at::Tensor()), last->bias(), from.residual, dropped.p,
                                        dropped.place);
}

at::Tensor activated(const Projected& from, Activation activation, const PassSettings& pass) {
  switch (activation) {
    case Activation::gelu_tanh:
      return gelu(from.outputs[0], pass);
    case Activation::gelu_erf:
      return gelu_erf(from.outputs[0], pass);
    case Activation::gated_silu:
      return gated_silu(from.outputs[0], from.outputs[1], pass);
  }
  HYPERION_CHECK(false, "an activation without a plain form");
  return {};
}

}  // namespace

PreNorm::PreNorm(std::shared_ptr<Norm> norm, Projections in, std::shared_ptr<Projection> out)
    : norm_(std::move(norm)), in_(std::move(in)), out_(std::move(out)) {}

bool PreNorm::fuses(const Pass& pass, double attention_dropout) const {
  if (!pass.fused_blocks || !norm_) return false;
  if (pass.cache != nullptr || pass.key_mask.defined() || pass.segments.defined()) return false;
  if (pass.training && attention_dropout > 0) return false;
  return can_fuse(in_) && out_->whole();
}

Projected PreNorm::in(const at::Tensor& input, Pass& pass, double attention_dropout) const {
  if (fuses(pass, attention_dropout)) {
    const auto linears = linears_for(in_, input);
    auto [residual, packed] = blocks::norm_linear(input, norm_->weights(), linears);
    Projected projected{std::move(residual), {std::move(packed)}, {}, /*fused=*/true};
    for (const auto& weight : linears.weights) projected.widths.push_back(weight.size(linears.in_out ? 1 : 0));
    return projected;
  }
  Projected projected{norm_ ? input : at::Tensor(), {}, {}, /*fused=*/false};
  const auto normed = norm_ ? run(*norm_, input, pass) : input;
  for (const auto& linear : in_) {
    projected.outputs.push_back(run(*linear, normed, pass));
    projected.widths.push_back(projected.outputs.back().size(-1));
  }
  return projected;
}

at::Tensor PreNorm::out(const Projected& from, const at::Tensor& mixed, Pass& pass, const PartDropout& dropout) const {
  if (!from.fused) return joined(from, run(*out_, mixed, pass), pass, dropout);
  return onto_residual(
      from, out_, mixed, dropped(dropout.p, dropout.name, dropout.layer, pass),
      [&](const auto& linears, const auto& residual) { return blocks::linear_residual(mixed, linears, residual); });
}

at::Tensor PreNorm::out(const Projected& from, Activation activation, Pass& pass, const PartDropout& dropout) const {
  if (!from.fused) return joined(from, run(*out_, activated(from, activation, pass), pass), pass, dropout);
  const auto& packed = from.outputs[0];
  return onto_residual(from, out_, packed, dropped(dropout.p, dropout.name, dropout.layer, pass),
                       [&](const auto& linears, const auto& residual) {
                         return blocks::activated_linear_residual(packed, activation, linears, residual, true);
                       });
}

at::Tensor PreNorm::joined(const Projected& from, const at::Tensor& output, Pass& pass,
                           const PartDropout& dropout) const {
  const auto part = nn::dropout(output, dropout.p, dropout.name, dropout.layer, pass);
  return from.residual.defined() ? from.residual + part : part;
}

void PreNorm::lay_out() const {
  for (const auto& projection : in_)
    if (!projection->whole()) return;
  const auto linears = linears_of(in_);
  blocks::lay_together(linears.weights);
  if (linears.biases.size() == linears.weights.size()) blocks::lay_together(linears.biases);
}

at::Tensor attend(const Projected& projected, const SelfAttention& attention, size_t layer, Pass& pass) {
  const auto& widths = projected.widths;
  const int64_t queries = (widths.size() == 1 ? widths[0] / 3 : widths[0]) / attention.head_width;
  const int64_t keys = (widths.size() == 1 ? widths[0] / 3 : widths[1]) / attention.head_width;
  if (projected.fused && attention.query_norm == nullptr)
    return blocks::packed_attention(projected.outputs[0], {queries, keys, attention.head_width}, pass.half_cosines,
                                    pass.half_sines, attention.how.causal, attention.how.window);
  std::vector<at::Tensor> heads;
  for (const auto& output : projected.outputs) heads.push_back(output.unflatten(-1, {-1, attention.head_width}));
  if (heads.size() == 1) heads = heads[0].split_with_sizes({queries, keys, keys}, 2);
  const auto turned = [&](const at::Tensor& each, Norm* norm) {
    const auto transposed = (norm != nullptr ? run(*norm, each, pass) : each).transpose(1, 2);
    return pass.cosines.defined() ? rotate(transposed, pass) : transposed;
  };
  const auto turned_queries = turned(heads[0], attention.query_norm),
             turned_keys = turned(heads[1], attention.key_norm);
  const auto mixed = attend(turned_queries, turned_keys, heads[2].transpose(1, 2), layer, pass, attention.how);
  return mixed.transpose(1, 2).flatten(2);
}

}  // namespace hyperion::nn
