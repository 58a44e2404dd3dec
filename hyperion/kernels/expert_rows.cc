#include "hyperion/kernels/expert_rows.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "hyperion/kernels/expert_rows_math.h"
#include "hyperion/kernels/tensor_forms.h"
#include "hyperion/kernels/typed.h"

namespace hyperion::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// `slot_of` undefined: every row is some slot's. against: [rows, width] to take the dots with, into `dots` of the
// slots; both may be undefined.
at::Tensor spread(const at::Tensor& given, const at::Tensor& row_of, const at::Tensor& slot_of, int64_t rows,
                  const at::Tensor& weights, const at::Tensor& against = {}, const at::Tensor& dots = {}) {
  const auto in = given.contiguous();
  const auto out = at::empty({rows, in.size(1)}, in.options());
  with_type(in.scalar_type(), [&]<class T>(T) {
    const SpreadRows<T> all{.in = pointer<const T>(in),
                            .row_of = pointer<const int32_t>(row_of),
                            .slot_of = pointer<const int32_t>(slot_of),
                            .weights = pointer<const float>(weights),
                            .out = pointer<T>(out),
                            .against = pointer<const T>(against),
                            .dots = pointer<float>(dots),
                            .tokens = row_of.size(0),
                            .rows = rows,
                            .width = out.size(1),
                            .choices = row_of.size(1)};
    in.is_cuda() ? on_gpu([&] { spread_rows_gpu(all, stream_of(in)); }) : spread_rows_cpu(all);
  });
  return out;
}

at::Tensor collect(const at::Tensor& given, const at::Tensor& row_of, const at::Tensor& weights) {
  const auto in = given.contiguous();
  const auto out = at::empty({row_of.size(0), in.size(1)}, in.options());
  with_type(in.scalar_type(), [&]<class T>(T) {
    const CollectRows<T> all{pointer<const T>(in),
                             pointer<const int32_t>(row_of),
                             pointer<const float>(weights),
                             pointer<T>(out),
                             out.size(0),
                             out.size(1),
                             row_of.size(1)};
    in.is_cuda() ? on_gpu([&] { collect_rows_gpu(all, stream_of(in)); }) : collect_rows_cpu(all);
  });
  return out;
}

struct ToExperts : torch::autograd::Function<ToExperts> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& tokens, const at::Tensor& row_of,
                            const std::optional<at::Tensor>& slot_of, int64_t rows) {
    context->save_for_backward({row_of});
    return spread(tokens, row_of, or_none(slot_of), rows, {});
  }
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    return {collect(upstream[0], context->get_saved_variables()[0], {}), {}, {}, {}};
  }
};

struct FromExperts : torch::autograd::Function<FromExperts> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& given, const at::Tensor& weights,
                            const at::Tensor& row_of, const std::optional<at::Tensor>& slot_of) {
    const auto answers = given.contiguous(), shares = weights.contiguous();
    context->save_for_backward({answers, shares, row_of, or_none(slot_of)});
    return collect(answers, row_of, shares);
  }
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto kept = context->get_saved_variables();
    const auto of_weights = at::empty_like(kept[1]);
    const auto of_answers = spread(upstream[0], kept[2], kept[3], kept[0].size(0), kept[1], kept[0], of_weights);
    return {of_answers, of_weights, {}, {}};
  }
};

std::optional<at::Tensor> zeros_of(const ExpertPlaces& places) {
  return places.full ? std::nullopt : std::optional(places.slot_of);
}

}  // namespace

ExpertPlaces expert_places(const at::Tensor& chosen, int64_t experts, const Capacity& capacity) {
  HYPERION_CHECK(chosen.dim() == 2 && chosen.scalar_type() == at::kLong, "choices are int64 [tokens, choices]");
  HYPERION_CHECK(experts >= 1 && experts <= kMostExperts, "there are from 1 to 4096 experts");
  const auto slots = chosen.contiguous();
  const bool full = capacity.rows == 0;
  const int64_t rows = full ? slots.numel() : experts * capacity.rows;
  HYPERION_CHECK(std::max(rows, slots.numel()) < std::numeric_limits<int32_t>::max(), "rows are counted in 32 bits");
  const auto whole = chosen.options().dtype(at::kInt);
  ExpertPlaces out{at::empty(slots.sizes(), whole), full ? at::empty({rows}, whole) : at::full({rows}, -1, whole),
                   at::empty({experts}, whole), full};
  const auto few = static_cast<int32_t>(experts);
  const auto counts = at::empty({expert_sort_workspace(slots.numel(), few)}, whole);
  const ExpertSort sort{.chosen = pointer<const int64_t>(slots),
                        .slots = slots.numel(),
                        .capacity = capacity.rows,
                        .limit = pointer<const int32_t>(capacity.limit),
                        .experts = few,
                        .row_of = pointer<int32_t>(out.row_of),
                        .ends = pointer<int32_t>(out.ends),
                        .slot_of = pointer<int32_t>(out.slot_of),
                        .counts = pointer<int32_t>(counts)};
  slots.is_cuda() ? on_gpu([&] { sort_by_expert_gpu(sort, stream_of(slots)); }) : sort_by_expert_cpu(sort);
  return out;
}

at::Tensor to_experts(const at::Tensor& tokens, const ExpertPlaces& places) {
  return ToExperts::apply(tokens, places.row_of, zeros_of(places), places.slot_of.size(0));
}

at::Tensor from_experts(const at::Tensor& answers, const at::Tensor& weights, const ExpertPlaces& places) {
  HYPERION_CHECK(weights.scalar_type() == at::kFloat && weights.sizes() == places.row_of.sizes(),
                 "weights are fp32, one a choice");
  return FromExperts::apply(answers, weights, places.row_of, zeros_of(places));
}

}  // namespace hyperion::kernels
