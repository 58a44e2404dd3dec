#include "hyperion/nn/fused.h"

#include <c10/core/GradMode.h>

#include "hyperion/blocks/block_ops.h"
#include "hyperion/nn/fp8_linears.h"

namespace hyperion::nn {
namespace {

// What they share: the first one's numbers. Steps that learn nothing are made in the weights' own type.
blocks::Fp8Linear fp8_of(ProjectionList list, const at::Tensor& input, const blocks::Linears& linears) {
  const auto* first = *list.begin();
  if (first->fp8() == nullptr || !c10::GradMode::is_enabled()) return {};
  const int64_t in = linears.weights[0].size(linears.in_out ? 0 : 1);
  int64_t out = 0;
  for (const auto& weight : linears.weights) out += weight.size(linears.in_out ? 1 : 0);
  return first->fp8()->take(first->fp8_index(), {input.numel() / input.size(-1), in, out, linears.in_out});
}

blocks::Linears maps_of(ProjectionList list) {
  blocks::Linears linears{{}, {}, (*list.begin())->in_out()};
  for (const auto* map : list) {
    linears.weights.push_back(map->weight());
    if (map->bias().defined()) linears.biases.push_back(map->bias());
  }
  return linears;
}

blocks::Linears maps_of(ProjectionList list, const at::Tensor& input) {
  auto linears = maps_of(list);
  linears.fp8 = fp8_of(list, input, linears);
  return linears;
}

// Without its bias, which is added in the pass that drops.
blocks::Linears bare(const Projection& map, const at::Tensor& input) {
  auto linears = maps_of({&map}, input);
  linears.biases.clear();
  return linears;
}

at::Tensor dropped_residual(const at::Tensor& output, const Projection& map, const at::Tensor& residual,
                            const Dropped& dropped) {
  return kernels::bias_dropout_residual(output, map.bias(), residual, dropped.p, dropped.place);
}

}  // namespace

bool fuses(const Pass& pass, double dropout, ProjectionList linears) {
  if (!pass.fused_blocks || pass.cache != nullptr || pass.key_mask.defined() || pass.segments.defined()) return false;
  if (pass.training && dropout > 0) return false;
  size_t biases = 0;
  for (const auto* map : linears) {
    if (!map->whole()) return false;
    biases += map->bias().defined() ? 1 : 0;
  }
  return biases == 0 || biases == linears.size();
}

std::pair<at::Tensor, at::Tensor> norm_linear(const at::Tensor& hidden, const kernels::NormWeights& norm,
                                              ProjectionList linears) {
  return blocks::norm_linear(hidden, norm, maps_of(linears, hidden));
}

at::Tensor linear_residual(const at::Tensor& input, const Projection& map, const at::Tensor& residual,
                           const Dropped& dropped) {
  if (dropped.p == 0) return blocks::linear_residual(input, maps_of({&map}, input), residual);
  return dropped_residual(blocks::linear_residual(input, bare(map, input), {}), map, residual, dropped);
}

at::Tensor activated_linear_residual(const at::Tensor& input, Activation kind, const Projection& map,
                                     const at::Tensor& residual, const Dropped& dropped) {
  if (dropped.p == 0) return blocks::activated_linear_residual(input, kind, maps_of({&map}, input), residual, true);
  return dropped_residual(blocks::activated_linear_residual(input, kind, bare(map, input), {}, true), map, residual,
                          dropped);
}

at::Tensor packed_attention(const at::Tensor& packed, int64_t heads, int64_t key_heads, Attending how,
                            const Pass& pass) {
  const blocks::Heads shape{heads, key_heads, packed.size(2) / (heads + 2 * key_heads)};
  return blocks::packed_attention(packed, shape, pass.half_cosines, pass.half_sines, how.causal, how.window);
}

void lay_together(ProjectionList list) {
  for (const auto* map : list)
    if (!map->whole()) return;
  const auto linears = maps_of(list);
  blocks::lay_together(linears.weights);
  if (linears.biases.size() == linears.weights.size()) blocks::lay_together(linears.biases);
}

at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets) {
  return blocks::linear_cross_entropy(hidden, weight, targets);
}

}  // namespace hyperion::nn
