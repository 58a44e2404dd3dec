#include "hyperion/nn/attention.h"

#include "hyperion/base/format.h"
#include "hyperion/kernels/attention.h"
#include "hyperion/nn/recompute.h"

namespace hyperion::nn {

void set_rotation(Pass& pass, const at::Tensor& frequencies, int64_t first, int64_t length, at::ScalarType type) {
  std::tie(pass.cosines, pass.sines) = pass.places.defined() ? kernels::rope_tables(frequencies, pass.places, type)
                                                             : kernels::rope_tables(frequencies, first, length, type);
  if (!pass.fused_blocks) return;
  const auto [cosines, sines] = pass.places.defined() ? kernels::rope_tables(frequencies, pass.places, at::kFloat)
                                                      : kernels::rope_tables(frequencies, first, length, at::kFloat);
  const auto half = [&](const at::Tensor& table) {
    return table.narrow(-1, 0, table.size(-1) / 2).reshape({-1, table.size(-1) / 2}).contiguous();
  };
  pass.half_cosines = half(cosines), pass.half_sines = half(sines);
}

at::Tensor rotate(const at::Tensor& input, const Pass& pass) { return kernels::rope(input, pass.cosines, pass.sines); }

at::Tensor wanted(const at::Tensor& hidden, const Pass& pass) {
  return pass.last_only ? hidden.narrow(1, hidden.size(1) - 1, 1) : hidden;
}

at::Tensor attend(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values, size_t layer, Pass& pass,
                  Attending how) {
  at::Tensor all_keys = keys, all_values = values;
  if (pass.cache != nullptr) std::tie(all_keys, all_values) = pass.cache->extend(layer, keys, values);
  const at::Tensor& mask = pass.same_document.defined() ? pass.same_document : pass.key_mask;
  if (pass.training && how.dropout > 0) {
    const auto weights = kernels::attention_weights(queries, all_keys, how.causal, mask);
    return kernels::weigh_values(dropout(weights, how.dropout, "attn_weights", layer, pass), all_values);
  }
  if (!how.causal)
    return pass.reference ? kernels::attention_reference(queries, all_keys, all_values, mask)
                          : kernels::attention(queries, all_keys, all_values, mask);
  return pass.reference ? kernels::causal_attention_reference(queries, all_keys, all_values, mask)
                        : kernels::causal_attention(queries, all_keys, all_values, mask);
}

Dropped dropped(double p, std::string_view name, size_t layer, const Pass& pass) {
  if (!pass.training || p == 0) return {};
  return {p, {base::stream_key(pass.seed, base::format("dropout/{}.{}", layer, name)), pass.step, pass.micro_batch}};
}

at::Tensor dropout(const at::Tensor& input, double p, std::string_view name, size_t layer, const Pass& pass) {
  const auto how = dropped(p, name, layer, pass);
  if (how.p == 0) return input;
  return cheap(pass, {input}, [how](const auto& in) { return kernels::dropout(in[0], how.p, how.place); });
}

}  // namespace hyperion::nn
