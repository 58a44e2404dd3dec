#include "hyperion/nn/pre_norm.h"

#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/blocks/adapted_linear.h"
#include "hyperion/blocks/block_ops.h"
#include "hyperion/nn/activation.h"
#include "hyperion/nn/fp8_linears.h"
#include "hyperion/nn/processes.h"
#include "hyperion/nn/shards.h"

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

blocks::Linears linears_for(const Projections& list, const at::Tensor& input, const PassSettings& pass) {
  auto linears = linears_of(list);
  linears.later = pass.later;
  linears.fp8 = fp8_of(*list.front(), input, linears);
  return linears;
}

blocks::FrozenLinears frozen_for(const Projections& list, const blocks::LaidRoom& room, const Pass& pass) {
  blocks::FrozenLinears linears{{}, {}, {}, list.front()->in_out(), {}, room.around(list.front()->weight())};
  for (const auto& projection : list) {
    if (projection->nf4())
      linears.packed.push_back(*projection->nf4());
    else
      linears.weights.push_back(projection->weight());
    if (projection->bias().defined()) linears.biases.push_back(projection->bias());
    linears.changes.push_back(projection->change_in(pass));
  }
  return linears;
}

template <class Each>
size_t count_of(const Projections& list, const Each& each) {
  return static_cast<size_t>(std::count_if(list.begin(), list.end(), [&](const auto& one) { return each(*one); }));
}

// All of them or none, as operations over several at once want it.
template <class Each>
bool alike(const Projections& list, const Each& each) {
  const size_t count = count_of(list, each);
  return count == 0 || count == list.size();
}

bool can_fuse(const Projections& list) {
  return count_of(list, [](const auto& one) { return one.whole(); }) == list.size() &&
         alike(list, [](const auto& one) { return one.bias().defined(); });
}

bool in_8_bits(const Projections& list) { return list.front()->fp8() != nullptr && c10::GradMode::is_enabled(); }

// Of linears cut among processes, also where steps are not fused otherwise: hidden states travel while products are
// made. `reference` has it apart, one after the other, and so have products in 8 bits.
bool travels(const Projections& list, const PassSettings& pass) {
  return !pass.reference && can_fuse(list) && !in_8_bits(list);
}

bool can_adapt(const Projections& list, const Pass& pass) {
  return count_of(list, [&](const auto& one) { return one.frozen(pass); }) == list.size() &&
         alike(list, [](const auto& one) { return one.bias().defined(); }) &&
         alike(list, [](const auto& one) { return one.nf4().has_value(); });
}

// What is dropped is dropped after the bias, so that both are left to the pass that adds the residual.
template <class Linears>
at::Tensor last_linear(const at::Tensor& input, std::optional<Activation> activation, Linears linears,
                       const at::Tensor& bias, const at::Tensor& residual, const Dropped& dropped) {
  const bool drops = dropped.p > 0;
  if (drops) linears.biases.clear();
  const auto added = drops ? at::Tensor() : residual;
  const auto out = activation ? blocks::activated_linear_residual(input, *activation, linears, added, true)
                              : blocks::linear_residual(input, linears, added);
  return drops ? kernels::bias_dropout_residual(out, bias, residual, dropped.p, dropped.place) : out;
}

// What is dropped of a part's output, as of the residual it is added to: at those places of the whole.
Dropped dropped_of(const at::Tensor& residual, const Pass& pass, const PartDropout& dropout) {
  if (dropout.p == 0) return {};
  return dropped(dropout.p, dropout.name, dropout.layer, pass, own_elements(residual, pass));
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

// Tokens that continue a cache are few: there is nothing between their products worth fusing.
Form PreNorm::form_in(const Pass& pass) const {
  if (!pass.fused_blocks || !norm_ || pass.cache != nullptr) return Form::plain;
  if (can_fuse(in_) && out_->whole()) return Form::fused;
  return can_adapt(in_, pass) && can_adapt({out_}, pass) ? Form::adapted : Form::plain;
}

Projected PreNorm::in(const at::Tensor& input, Pass& pass) const {
  Projected projected{norm_ ? input : at::Tensor(), {}, {}, form_in(pass)};
  for (const auto& linear : in_) projected.widths.push_back(linear->width());
  if (cut(pass)) {
    projected.outputs = in_shards(run(*norm_, input, pass), projected, pass);
  } else if (projected.form == Form::plain) {
    const auto normed = norm_ ? run(*norm_, input, pass) : input;
    for (const auto& linear : in_) projected.outputs.push_back(run(*linear, normed, pass));
  } else {
    auto [residual, packed] = projected.form == Form::fused
                                  ? blocks::norm_linear(input, norm_->weights(), linears_for(in_, input, pass))
                                  : blocks::norm_linear(input, norm_->weights(), frozen_for(in_, room_in_, pass));
    projected.residual = std::move(residual), projected.outputs = {std::move(packed)};
  }
  return projected;
}

std::vector<at::Tensor> PreNorm::in_shards(const at::Tensor& normed, const Projected& projected, Pass& pass) const {
  auto& travel = pass.shards->travel(pass.by_sequence);
  if (projected.form == Form::adapted)
    return {blocks::joined_linears(normed, frozen_for(in_, room_in_, pass), &travel)};
  if (!travels(in_, pass)) {
    const auto whole = into_shards(normed, pass);
    if (projected.form == Form::fused) return {blocks::joined_linears(whole, linears_for(in_, whole, pass))};
    std::vector<at::Tensor> outputs;
    for (const auto& linear : in_) outputs.push_back(run(*linear, whole, pass));
    return outputs;
  }
  const auto packed = blocks::joined_linears(normed, linears_for(in_, normed, pass), &travel);
  if (projected.form == Form::fused || in_.size() == 1) return {packed};
  return packed.split_with_sizes(projected.widths, -1);
}

at::Tensor PreNorm::out(const Projected& from, const at::Tensor& mixed, Pass& pass, const PartDropout& dropout) const {
  if (from.form != Form::plain) return onto_residual(from, std::nullopt, mixed, pass, dropout);
  return joined(from, mixed, pass, dropout);
}

at::Tensor PreNorm::out(const Projected& from, Activation activation, Pass& pass, const PartDropout& dropout) const {
  if (from.form != Form::plain) return onto_residual(from, activation, from.outputs[0], pass, dropout);
  return joined(from, activated(from, activation, pass), pass, dropout);
}

at::Tensor PreNorm::onto_residual(const Projected& from, std::optional<Activation> activation, const at::Tensor& input,
                                  const Pass& pass, const PartDropout& dropout) const {
  const bool alone = !cut(pass);
  const auto how = alone ? dropped_of(from.residual, pass, dropout) : Dropped{};
  const auto made = [&](auto linears) {
    if (alone) return last_linear(input, activation, linears, out_->bias(), from.residual, how);
    linears.biases.clear();
    if (from.form == Form::fused && !travels({out_}, pass))
      return out_of_shards(last_linear(input, activation, linears, {}, {}, {}), pass);
    return blocks::summed_linear(input, activation, linears, pass.shards->travel(pass.by_sequence), /*last_use=*/true);
  };
  const auto output =
      from.form == Form::fused ? made(linears_for({out_}, input, pass)) : made(frozen_for({out_}, room_out_, pass));
  return alone ? output : onto_residual(from, output, pass, dropout);
}

at::Tensor PreNorm::joined(const Projected& from, const at::Tensor& input, Pass& pass,
                           const PartDropout& dropout) const {
  if (cut(pass)) return onto_residual(from, sum_of_shards(input, pass), pass, dropout);
  auto part = run(*out_, input, pass);
  if (dropout.p > 0) part = nn::dropout(part, dropout.p, dropout.name, dropout.layer, pass, own_elements(part, pass));
  return from.residual.defined() ? from.residual + part : part;
}

at::Tensor PreNorm::sum_of_shards(const at::Tensor& input, Pass& pass) const {
  if (!travels({out_}, pass)) return out_of_shards(out_->without_bias(input, pass), pass);
  auto linears = linears_for({out_}, input, pass);
  linears.biases.clear();
  return blocks::summed_linear(input, std::nullopt, linears, pass.shards->travel(pass.by_sequence));
}

at::Tensor PreNorm::onto_residual(const Projected& from, const at::Tensor& sum, const Pass& pass,
                                  const PartDropout& dropout) const {
  const auto how = dropped_of(from.residual, pass, dropout);
  if (how.p > 0) return kernels::bias_dropout_residual(sum, out_->bias(), from.residual, how.p, how.place);
  return from.residual + (out_->bias().defined() ? sum + out_->bias() : sum);
}

void PreNorm::lay_out() {
  room_in_ = {}, room_out_ = {};
  const auto can_move = [](const Projection& one) { return one.weight().defined() && one.rows() == nullptr; };
  if (can_move(*out_) && !out_->in_out() && out_->largest_rank() > 0 &&
      blocks::wants_rows_beneath(out_->weight().size(1), out_->weight().size(0)))
    room_out_ = {{out_->weight()}, {.rows = out_->largest_rank()}};
  if (count_of(in_, can_move) < in_.size()) return;
  const auto linears = linears_of(in_);
  int64_t ranks = 0;
  for (const auto& projection : in_) ranks += projection->largest_rank();
  if (ranks > 0 && !linears.in_out)
    room_in_ = {linears.weights, {.columns = ranks}};
  else
    blocks::lay_together(linears.weights);
  if (linears.biases.size() == linears.weights.size()) blocks::lay_together(linears.biases);
}

at::Tensor attend(const Projected& projected, const SelfAttention& attention, size_t layer, Pass& pass) {
  const auto& widths = projected.widths;
  const int64_t queries = (widths.size() == 1 ? widths[0] / 3 : widths[0]) / attention.head_width;
  const int64_t keys = (widths.size() == 1 ? widths[0] / 3 : widths[1]) / attention.head_width;
  const bool drops = pass.training && attention.how.dropout > 0;
  const bool here = pass.context == nullptr && !pass.key_mask.defined();
  if (projected.form != Form::plain && attention.query_norm == nullptr && here && !drops)
    return blocks::packed_attention(projected.outputs[0], {queries, keys, attention.head_width}, pass.half_cosines,
                                    pass.half_sines, {attention.how.causal, attention.how.window, pass.segments});
  std::vector<at::Tensor> heads;
  for (const auto& output : projected.outputs) heads.push_back(output.unflatten(-1, {-1, attention.head_width}));
  if (heads.size() == 1) heads = heads[0].split_with_sizes({queries, keys, keys}, 2);
  const auto turned = [&](const at::Tensor& each, Norm* norm) {
    const auto transposed = (norm != nullptr ? run(*norm, each, pass) : each).transpose(1, 2);
    return pass.cosines.defined() ? rotate(transposed, pass) : transposed;
  };
  const auto turned_queries = turned(heads[0], attention.query_norm),
             turned_keys = turned(heads[1], attention.key_norm);
  auto how = attention.how;
  if (pass.shards != nullptr)
    how.first_head = queries * pass.shards->index(), how.all_heads = queries * pass.shards->count();
  const auto mixed = attend(turned_queries, turned_keys, heads[2].transpose(1, 2), layer, pass, how);
  return mixed.transpose(1, 2).flatten(2);
}

}  // namespace hyperion::nn
