#include "hyperion/blocks/library_attention.h"

#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>

#include "hyperion/base/format.h"
#include "hyperion/blocks/attention.h"

namespace hyperion::blocks {
namespace {

constexpr double kNoDropout = 0;

// On a CPU every query head has keys of its own.
at::Tensor for_each_query_head(const at::Tensor& keys, const at::Tensor& queries) {
  const int64_t group = queries.size(1) / keys.size(1);
  return group == 1 ? keys : keys.repeat_interleave(group, 1);
}

at::Tensor summed_by_group(const at::Tensor& gradient, const at::Tensor& keys) {
  if (gradient.size(1) == keys.size(1)) return gradient;
  return gradient.unflatten(1, {keys.size(1), -1}).sum(2);
}

LibraryAttention attention_on_cpu(const AttentionInputs& in, bool causal) {
  auto [output, sums] =
      at::_scaled_dot_product_flash_attention_for_cpu(in.queries, for_each_query_head(in.keys, in.queries),
                                                      for_each_query_head(in.values, in.queries), kNoDropout, causal);
  return {std::move(output), std::move(sums)};
}

AttentionInputs gradients_on_cpu(const AttentionInputs& in, const at::Tensor& above, const LibraryAttention& a,
                                 bool causal) {
  const auto [queries, keys, values] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      above, in.queries, for_each_query_head(in.keys, in.queries), for_each_query_head(in.values, in.queries), a.output,
      a.sums, kNoDropout, causal);
  return {queries, summed_by_group(keys, in.keys), summed_by_group(values, in.values)};
}

}  // namespace

bool has_library_attention(const at::Tensor& of, int64_t width) {
  return of.is_cpu() ? of.is_floating_point() : attends_by_bounds(of, width);
}

LibraryAttention library_attention(const AttentionInputs& in, bool causal, AttentionBackend backend) {
  if (in.queries.is_cpu()) return attention_on_cpu(in, causal);
  if (backend == AttentionBackend::cudnn) {
    const auto all = at::_scaled_dot_product_cudnn_attention(in.queries, in.keys, in.values, std::nullopt,
                                                             /*compute_log_sumexp=*/true, kNoDropout, causal);
    return {std::get<0>(all), std::get<1>(all).squeeze(-1), std::get<6>(all), std::get<7>(all)};
  }
  const auto all = at::_scaled_dot_product_flash_attention(in.queries, in.keys, in.values, kNoDropout, causal);
  return {std::get<0>(all), std::get<1>(all), std::get<6>(all), std::get<7>(all)};
}

AttentionInputs library_gradients(const AttentionInputs& in, const at::Tensor& above, const LibraryAttention& a,
                                  bool causal, AttentionBackend backend) {
  if (in.queries.is_cpu()) return gradients_on_cpu(in, above, a, causal);
  const int64_t queries = in.queries.size(2), keys = in.keys.size(2);
  const auto unused = [&](const at::Tensor& given) {  // as nothing is dropped
    return given.defined() ? given : at::empty({}, in.queries.options().dtype(at::kLong));
  };
  const auto seed = unused(a.seed), offset = unused(a.offset);
  const auto all = backend == AttentionBackend::cudnn
                       ? at::_scaled_dot_product_cudnn_attention_backward(
                             above, in.queries, in.keys, in.values, a.output, a.sums.unsqueeze(-1), seed, offset,
                             at::Tensor(), at::Tensor(), at::Tensor(), queries, keys, kNoDropout, causal)
                       : at::_scaled_dot_product_flash_attention_backward(
                             above, in.queries, in.keys, in.values, a.output, a.sums, at::Tensor(), at::Tensor(),
                             queries, keys, kNoDropout, causal, seed, offset);
  return {std::get<0>(all), std::get<1>(all), std::get<2>(all)};
}

AttentionBackend library_backend(const AttentionInputs& in, bool causal) {
  const auto& q = in.queries;
  if (q.is_cpu()) return AttentionBackend::flash;
  const auto length = q.size(2) == in.keys.size(2) ? base::format("{}", q.size(2))
                                                   : base::format("{} to {}", q.size(2), in.keys.size(2));
  const auto what =
      base::format("{}attention {}x{} of {} heads, {} for keys, {} wide, {}", causal ? "causal " : "", q.size(0),
                   length, q.size(1), in.keys.size(1), q.size(3), c10::toString(q.scalar_type()));
  return attention_backend(q.device(), what, [&](AttentionBackend backend) {
    const auto above = q.transpose(1, 2).contiguous().transpose(1, 2);
    library_gradients(in, above, library_attention(in, causal, backend), causal, backend);
  });
}

}  // namespace hyperion::blocks
