#include "hyperion/blocks/attention_parts.h"

#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>

#include <cmath>
#include <limits>

#include "hyperion/base/error.h"
#include "hyperion/blocks/attention_parts_math.h"
#include "hyperion/kernels/typed.h"

namespace hyperion::blocks {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();  // what is not seen, and sums of it

// Query heads that share a head of keys, behind each other: [batch, key heads, group x queries, width].
at::Tensor grouped(const at::Tensor& of_queries, int64_t key_heads) {
  return of_queries.unflatten(1, {key_heads, -1}).flatten(2, 3);
}

double scale_of(const at::Tensor& queries) { return 1.0 / std::sqrt(static_cast<double>(queries.size(3))); }

// fp32 [batch, key heads, group, queries, keys], -inf where a query does not see a key.
at::Tensor scores_of(const AttentionInputs& inputs, const PartSight& sight) {
  const auto& [queries, keys, values] = inputs;
  const int64_t key_heads = keys.size(1), rows = queries.size(2), columns = keys.size(2);
  const auto scores = at::matmul(grouped(queries, key_heads), keys.transpose(-2, -1))
                          .mul(scale_of(queries))
                          .to(at::kFloat)
                          .unflatten(2, {-1, rows});
  if (sight.seen.defined()) return scores.masked_fill(sight.seen.logical_not().unsqueeze(2), kNothing);
  if (!sight.causal) return scores;
  const auto ahead = at::ones({rows, columns}, queries.options().dtype(at::kBool).requires_grad(false)).triu(1);
  return scores.masked_fill(ahead, kNothing);
}

// [batch, key heads, group, ...] as [batch, heads, ...].
at::Tensor by_head(const at::Tensor& tensor) { return tensor.flatten(1, 2); }

bool by_library(const AttentionInputs& inputs, const PartSight& sight) {
  return !sight.seen.defined() && has_library_attention(inputs.queries, inputs.queries.size(3));
}

}  // namespace

AttentionPart attend_part(const AttentionInputs& inputs, const PartSight& sight) {
  if (by_library(inputs, sight)) {
    auto part = library_attention(inputs, sight.causal, library_backend(inputs, sight.causal));
    return {std::move(part.output), std::move(part.sums)};
  }
  const auto scores = scores_of(inputs, sight);
  const auto sums = at::logsumexp(scores, {-1});
  const auto finite = sums.masked_fill(sums.eq(kNothing), 0);
  const auto weights = scores.sub(finite.unsqueeze(-1)).exp_();
  const auto output = at::matmul(weights.flatten(2, 3).to(inputs.values.scalar_type()), inputs.values);
  return {output.view(inputs.queries.sizes()), by_head(sums)};
}

void merge_part(AttentionPart& all, const AttentionPart& more, int64_t first) {
  const int64_t count = more.sums.size(2);
  const auto output = all.output.narrow(2, first, count), sums = all.sums.narrow(2, first, count);
  const auto given = more.output.stride(3) == 1 ? more.output : more.output.contiguous();
  HYPERION_CHECK(output.scalar_type() == at::kFloat && output.stride(3) == 1, "parts are put together in fp32");
  const auto strides = [](const at::Tensor& of) { return RowStrides{of.stride(0), of.stride(1), of.stride(2)}; };
  kernels::with_type(given.scalar_type(), [&]<class T>(T) {
    const MergeParts<T> parts{.output = kernels::pointer<float>(output),
                              .sums = kernels::pointer<float>(sums),
                              .more = kernels::pointer<const T>(given),
                              .more_sums = kernels::pointer<const float>(more.sums),
                              .of_output = strides(output),
                              .of_sums = strides(sums),
                              .of_more = strides(given),
                              .of_more_sums = strides(more.sums),
                              .batch = output.size(0),
                              .heads = output.size(1),
                              .queries = count,
                              .width = output.size(3)};
    output.is_cuda() ? kernels::on_gpu([&] { merge_parts_gpu(parts, kernels::stream_of(output)); })
                     : merge_parts_cpu(parts);
  });
}

void merge_part_reference(AttentionPart& all, const AttentionPart& more, int64_t first) {
  const int64_t count = more.sums.size(2);
  const auto output = all.output.narrow(2, first, count), sums = all.sums.narrow(2, first, count);
  const auto both = at::logaddexp(sums, more.sums);
  const auto finite = both.masked_fill(both.eq(kNothing), 0);  // of queries that see no key so far
  const auto share = [&](const at::Tensor& of) { return of.sub(finite).exp_().unsqueeze(-1); };
  output.mul_(share(sums)).add_(more.output.to(at::kFloat).mul(share(more.sums)));
  sums.copy_(both);
}

AttentionInputs part_gradients(const AttentionWhole& whole, const AttentionInputs& inputs, const PartSight& sight) {
  if (by_library(inputs, sight))
    return library_gradients(inputs, whole.above, {whole.output, whole.sums}, sight.causal,
                             library_backend(inputs, sight.causal));
  const auto& [queries, keys, values] = inputs;
  const auto type = queries.scalar_type();
  const int64_t key_heads = keys.size(1);
  const auto in_groups = [&](const at::Tensor& of) { return of.unflatten(1, {key_heads, -1}).unsqueeze(-1); };
  const auto weights = scores_of(inputs, sight).sub_(in_groups(whole.sums)).exp_();
  const auto narrow = grouped(whole.above, key_heads);
  const auto weighed = whole.above.to(at::kFloat).mul(whole.output).sum(-1);
  const auto of_values = at::matmul(weights.flatten(2, 3).to(type).transpose(-2, -1), narrow);
  const auto of_weights = at::matmul(narrow, values.transpose(-2, -1)).to(at::kFloat).view(weights.sizes());
  const auto of_scores =
      of_weights.sub(in_groups(weighed)).mul_(weights).mul_(scale_of(queries)).flatten(2, 3).to(type);
  const auto of_queries = at::matmul(of_scores, keys);
  const auto of_keys = at::matmul(of_scores.transpose(-2, -1), grouped(queries, key_heads));
  return {of_queries.to(at::kFloat).view(queries.sizes()), of_keys.to(at::kFloat), of_values.to(at::kFloat)};
}

}  // namespace hyperion::blocks
