#include "hyperion/nn/attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/blocks/attention.h"
#include "hyperion/device/graph.h"
#include "hyperion/nn/context.h"
#include "hyperion/nn/key_value_cache.h"
#include "hyperion/nn/recompute.h"
#include "hyperion/nn/shards.h"

namespace hyperion::nn {

Rotation::Rotation(int64_t head_width, const RopeConfig& config)
    : head_width_(head_width), config_(config), frequencies_(rope_frequencies(head_width, config)) {}

namespace {

// Padding behind the longest row of the pass counts for no length; a mask that attention is given too is a caller's
// own, whose columns all count, as in transformers.
bool has_padded_ends(const PassInputs& pass) {
  return pass.token_mask.defined() && !pass.key_mask.defined() && pass.cache == nullptr;
}

}  // namespace

bool Rotation::differs_by_pass(const PassInputs& pass) const {
  return pass.positions.defined() || (config_.scaling == RopeScaling::dynamic && has_padded_ends(pass));
}

at::Tensor Rotation::frequencies_for(const PassInputs& pass, int64_t length, at::Device device) {
  if (config_.scaling != RopeScaling::dynamic || (!pass.positions.defined() && length <= config_.original_context))
    return frequencies_ = frequencies_.to(device);
  const auto whole = at::TensorOptions().dtype(at::kLong).device(device);
  const auto farthest = pass.reach.defined()       ? pass.reach
                        : pass.positions.defined() ? pass.positions.max().add(1)
                        : has_padded_ends(pass)    ? at::arange(1, length + 1, whole).mul(pass.token_mask.any(0)).max()
                                                   : at::full({}, length, whole);
  return rope_frequencies(head_width_, config_, farthest);
}

void Rotation::apply_to(Pass& pass, int64_t first, const at::Tensor& hidden) {
  const int64_t length = length_of_all(hidden, pass);
  const Key key{first, length, hidden.scalar_type(), hidden.device(), pass.fused_blocks};
  if (differs_by_pass(pass) || !known_ || *known_ != key) {
    const auto frequencies = frequencies_for(pass, first + length, hidden.device());
    const auto tables = [&](at::ScalarType type) {
      return pass.positions.defined() ? blocks::rope_tables(frequencies, pass.positions, type, config_.table_scale)
                                      : blocks::rope_tables(frequencies, first, length, type, config_.table_scale);
    };
    std::tie(cosines_, sines_) = tables(hidden.scalar_type());
    if (pass.fused_blocks) {
      const auto half = [](const at::Tensor& table) {
        return table.narrow(-1, 0, table.size(-1) / 2).reshape({-1, table.size(-1) / 2}).contiguous();
      };
      const auto [cosines, sines] = tables(at::kFloat);
      half_cosines_ = half(cosines), half_sines_ = half(sines);
    }
    known_.reset();
    // What a graph records it makes anew in each replay.
    if (!differs_by_pass(pass) && !device::recording()) known_ = key;
  }
  pass.cosines = cosines_, pass.sines = sines_;
  if (pass.fused_blocks) pass.half_cosines = half_cosines_, pass.half_sines = half_sines_;
}

at::Tensor rotate(const at::Tensor& input, const PassScratch& pass) {
  return blocks::rope(input, pass.cosines, pass.sines);
}

at::Tensor wanted(const at::Tensor& hidden, const PassSettings& pass) {
  return pass.last_only ? hidden.narrow(1, hidden.size(1) - 1, 1) : hidden;
}

at::Tensor attend(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values, size_t layer, Pass& pass,
                  Attending how) {
  if (pass.context != nullptr) {
    HYPERION_CHECK(how.causal && !(pass.training && how.dropout > 0),
                   "what is cut by tokens is plain causal attention");
    return attend_in_context(queries, keys, values, how.window, pass);
  }
  at::Tensor all_keys = keys, all_values = values;
  if (pass.cache != nullptr) std::tie(all_keys, all_values) = pass.cache->extend(layer, keys, values);
  const blocks::AttentionMask mask{pass.key_mask, pass.segments, how.window};
  if (pass.training && how.dropout > 0) {
    const auto weights = blocks::attention_weights(queries, all_keys, how.causal, mask);
    const int64_t head = weights.size(2) * weights.size(3);
    const kernels::ElementMap elements =
        how.all_heads == 0 ? kernels::ElementMap{}
                           : kernels::ElementMap{weights.size(1) * head, how.all_heads * head, how.first_head * head};
    return blocks::weigh_values(dropout(weights, how.dropout, "attn_weights", layer, pass, elements), all_values);
  }
  if (!how.causal)
    return pass.reference ? blocks::attention_reference(queries, all_keys, all_values, mask)
                          : blocks::attention(queries, all_keys, all_values, mask);
  return pass.reference ? blocks::causal_attention_reference(queries, all_keys, all_values, mask)
                        : blocks::causal_attention(queries, all_keys, all_values, mask);
}

Dropped dropped(double p, std::string_view name, size_t layer, const PassSettings& pass,
                const kernels::ElementMap& elements) {
  if (!pass.training || p == 0) return {};
  return {
      p,
      {base::stream_key(pass.seed, base::format("dropout/{}.{}", layer, name)), pass.step, pass.micro_batch, elements}};
}

at::Tensor dropout(const at::Tensor& input, double p, std::string_view name, size_t layer, const PassSettings& pass,
                   const kernels::ElementMap& elements) {
  const auto how = dropped(p, name, layer, pass, elements);
  if (how.p == 0) return input;
  return cheap(pass, {input}, [how](const auto& in) { return kernels::dropout(in[0], how.p, how.place); });
}

}  // namespace hyperion::nn
