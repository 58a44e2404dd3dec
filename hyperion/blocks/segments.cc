#include "hyperion/blocks/segments.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/zeros.h>

#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "hyperion/base/error.h"

namespace hyperion::blocks {
namespace {

at::Tensor dense(const at::Tensor& starts, const Segments::Sight& sight) {
  if (!sight.causal) {
    HYPERION_CHECK(starts.size(1) == sight.keys, "segments that see ahead have as many queries as keys");
    return starts.unsqueeze(2).eq(starts.unsqueeze(1)).unsqueeze(1);
  }
  const auto keys = at::arange(sight.keys, starts.options());
  const auto own = keys.narrow(0, sight.keys - starts.size(1), starts.size(1)).unsqueeze(1);  // the query's own place
  auto seen = keys.ge(starts.unsqueeze(2)).logical_and_(keys.le(own));
  if (sight.window > 0) seen.logical_and_(keys.gt(own.sub(sight.window)));
  return seen.unsqueeze(1);
}

}  // namespace

struct Segments::Made {
  // Few: a model's layers differ in their windows alone.
  std::vector<std::pair<Sight, at::Tensor>> visible;
  std::vector<std::tuple<Sight, at::ScalarType, at::Tensor>> added;
  at::Tensor bounds;
};

Segments::Segments(at::Tensor starts, int64_t most)
    : starts_(std::move(starts)), most_(most), made_(std::make_shared<Made>()) {
  HYPERION_CHECK(starts_.dim() == 2 && starts_.scalar_type() == at::kInt, "segments are int32 [batch, queries]");
}

// Without waiting for the device, so that a graph can record it: the tokens count the documents begun so far, and of
// each document the first token that counts it is looked up.
at::Tensor Segments::bounds() const {
  if (most_ == 0 || made_->bounds.defined()) return made_->bounds;
  const auto begins = starts_.eq(at::arange(starts_.size(1), starts_.options()));
  const auto begun = begins.flatten().cumsum(0, at::kInt);
  const auto counts = at::arange(1, starts_.size(0) * most_ + 2, starts_.options());
  return made_->bounds = at::searchsorted(begun, counts, /*out_int32=*/true);
}

int64_t most_documents(const at::Tensor& starts) {
  if (starts.numel() == 0) return 0;
  return starts.eq(at::arange(starts.size(1), starts.options())).sum(1).max().item<int64_t>();
}

at::Tensor Segments::visible(const Sight& sight) const {
  for (const auto& [of, tensor] : made_->visible)
    if (of == sight) return tensor;
  return made_->visible.emplace_back(sight, dense(starts_, sight)).second;
}

at::Tensor Segments::added_to_scores(const Sight& sight, at::ScalarType type) const {
  for (const auto& [of, made_type, tensor] : made_->added)
    if (of == sight && made_type == type) return tensor;
  const auto hidden = dense(starts_, sight).logical_not_();
  auto added = at::zeros(hidden.sizes(), hidden.options().dtype(type));
  added.masked_fill_(hidden, -std::numeric_limits<double>::infinity());
  return std::get<at::Tensor>(made_->added.emplace_back(sight, type, added));
}

}  // namespace hyperion::blocks
