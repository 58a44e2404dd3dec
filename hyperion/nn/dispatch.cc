#include "hyperion/nn/dispatch.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

namespace hyperion::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Row i of the result is row order[i] / copies of the input; `order` is a permutation, `inverse` its inverse. Autograd
// would add the gradients of copies in whatever order they come, one atomic operation each: this one gathers and sums.
struct Gathered : torch::autograd::Function<Gathered> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& order,
                            const at::Tensor& inverse, int64_t copies) {
    context->save_for_backward({inverse});
    context->saved_data["copies"] = copies;
    return input.index_select(0, copies == 1 ? order : order.div(copies, "floor"));
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto rows = gradients[0].index_select(0, context->get_saved_variables()[0]);
    const int64_t copies = context->saved_data["copies"].toInt();
    return {copies == 1 ? rows : rows.view({-1, copies, rows.size(1)}).sum(1), {}, {}, {}};
  }
};

// Each token's answers lie together: [tokens * choices, width].
at::Tensor weighted_sum(const at::Tensor& answers, const at::Tensor& weights) {
  const auto grouped = answers.view({weights.size(0), weights.size(1), answers.size(1)});
  return grouped.mul(weights.to(answers.scalar_type()).unsqueeze(2)).sum(1);
}

struct Sorted {
  at::Tensor experts, order, inverse, ends;  // of tokens * choices; ends int64 [experts]
};

// What goes nowhere is behind the last expert's.
Sorted sort_by_expert(const at::Tensor& given, int64_t experts) {
  const auto choices = at::where(given.lt(0), experts, given);
  Sorted sorted;
  // Stable: within an expert tokens keep their order.
  std::tie(sorted.experts, sorted.order) = at::sort(choices, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const auto places = at::arange(choices.size(0), choices.options());
  sorted.inverse = at::empty_like(sorted.order).scatter_(0, sorted.order, places);
  sorted.ends = at::searchsorted(sorted.experts, at::arange(experts, choices.options()), /*out_int32=*/false,
                                 /*right=*/true);
  return sorted;
}

Dispatched dispatch_all(const at::Tensor& tokens, const at::Tensor& weights, const Sorted& sorted) {
  return {Gathered::apply(tokens, sorted.order, sorted.inverse, weights.size(1)), sorted.ends.to(at::kInt),
          [weights, order = sorted.order, inverse = sorted.inverse](const at::Tensor& answers) {
            return weighted_sum(Gathered::apply(answers, inverse, order, 1), weights);
          }};
}

Dispatched dispatch_within(const at::Tensor& tokens, const at::Tensor& weights, const Sorted& sorted,
                           const kernels::Capacity& capacity) {
  const int64_t choices = weights.size(1), experts = sorted.ends.size(0), rows = experts * capacity.rows;
  const auto starts = at::cat({at::zeros({1}, sorted.ends.options()), sorted.ends});
  const auto place = at::arange(sorted.order.size(0), sorted.order.options());
  const auto turn = place.sub(starts.index_select(0, sorted.experts));
  // A row beyond the last takes what is dropped.
  const auto limit =
      capacity.limit.defined() ? capacity.limit.to(at::kLong) : at::full({}, capacity.rows, turn.options());
  const auto fits = turn.lt(limit).logical_and(sorted.experts.lt(experts));
  const auto row = at::where(fits, sorted.experts.mul(capacity.rows).add(turn), rows);
  const auto row_of = row.index_select(0, sorted.inverse);
  const auto copies = tokens.unsqueeze(1).expand({-1, choices, -1}).reshape({-1, tokens.size(1)});
  const auto filled = at::zeros({rows + 1, tokens.size(1)}, tokens.options()).index_add(0, row_of, copies);
  return {filled.narrow(0, 0, rows), at::arange(1, experts + 1, sorted.ends.options()).mul(capacity.rows).to(at::kInt),
          [weights, row_of](const at::Tensor& answers) {
            const auto nothing = at::zeros({1, answers.size(1)}, answers.options());
            return weighted_sum(at::cat({answers, nothing}).index_select(0, row_of), weights);
          }};
}

}  // namespace

Dispatched LocalDispatcher::dispatch(const at::Tensor& tokens, const Routing& routing, int64_t experts,
                                     const kernels::Capacity& capacity) {
  const auto places = kernels::expert_places(routing.experts, experts, capacity);
  return {kernels::to_experts(tokens, places), places.ends,
          [places, weights = routing.weights](const at::Tensor& answers) {
            return kernels::from_experts(answers, weights, places);
          }};
}

Dispatched ReferenceDispatcher::dispatch(const at::Tensor& tokens, const Routing& routing, int64_t experts,
                                         const kernels::Capacity& capacity) {
  const Sorted sorted = sort_by_expert(routing.experts.reshape({-1}), experts);
  return capacity.rows > 0 ? dispatch_within(tokens, routing.weights, sorted, capacity)
                           : dispatch_all(tokens, routing.weights, sorted);
}

void count_choices(const at::Tensor& counter, const at::Tensor& chosen, const at::Tensor& ends,
                   const kernels::Capacity& capacity) {
  const at::NoGradGuard no_grad;
  const int64_t experts = counter.size(0) - 1;
  const auto sums = counter.narrow(0, 0, experts);
  if (capacity.rows == 0) {  // every choice has a row
    sums.add_(ends);
    return;
  }
  const auto flat = chosen.reshape({-1});
  const auto counts = at::zeros({experts}, sums.options()).scatter_add_(0, flat.clamp_min(0), flat.ge(0).to(at::kInt));
  const auto dropped = capacity.limit.defined() ? counts.sub(capacity.limit) : counts.sub(capacity.rows);
  sums.add_(counts.cumsum(0, at::kInt));
  counter.narrow(0, experts, 1).add_(dropped.clamp_min(0).sum().to(at::kInt));
}

}  // namespace hyperion::nn
