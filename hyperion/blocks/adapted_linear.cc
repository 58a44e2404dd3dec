#include "hyperion/blocks/adapted_linear.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "hyperion/base/error.h"
#include "hyperion/blocks/linears.h"
#include "hyperion/blocks/matrix_parts.h"
#include "hyperion/kernels/activations.h"
#include "hyperion/kernels/gemm.h"

namespace hyperion::blocks {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What of the linears travels from forward to backward beside the saved tensors: the frozen weights are no activations.
struct HeldLinears final : torch::CustomClassHolder {
  explicit HeldLinears(FrozenLinears given) : linears(std::move(given)) {}
  FrozenLinears linears;
};

int64_t side_of(const FrozenLinears& linears) { return linears.in_out ? 1 : 0; }

std::vector<int64_t> widths_of(const FrozenLinears& linears) {
  std::vector<int64_t> widths;
  for (const auto& weight : linears.weights) widths.push_back(weight.size(side_of(linears)));
  for (const auto& packed : linears.packed) widths.push_back(packed.shape[static_cast<size_t>(side_of(linears))]);
  return widths;
}

int64_t sum_of(const std::vector<int64_t>& list) { return std::accumulate(list.begin(), list.end(), int64_t{0}); }

int64_t ranks_of(const FrozenLinears& linears) {
  int64_t ranks = 0;
  for (const auto& part : linears.changes) ranks += part.a.defined() ? part.a.size(0) : 0;
  return ranks;
}

int64_t input_width(const FrozenLinears& linears) {
  const size_t side = linears.in_out ? 0 : 1;
  return linears.packed.empty() ? linears.weights[0].size(static_cast<int64_t>(side)) : linears.packed[0].shape[side];
}

// The weights one beneath the other, [out, in] (unless in_out), with room for so many rows and columns besides; or none
// at all where they have no such room.
at::Tensor weight_with_room(const FrozenLinears& linears, at::ScalarType type, RoomBeside wanted) {
  if (linears.in_out) return {};
  const auto widths = widths_of(linears);
  const int64_t out = sum_of(widths), in = input_width(linears);
  if (linears.packed.empty()) {
    const bool fits = linears.room.defined() && linears.room.size(0) >= out + wanted.rows &&
                      linears.room.size(1) >= in + wanted.columns;
    return fits ? linears.room : at::Tensor();
  }
  const auto made = at::empty({out + wanted.rows, wanted.columns > 0 ? with_pitch(in + wanted.columns) : in},
                              linears.packed[0].group_scales.options().dtype(type));
  int64_t row = 0;
  for (size_t i = 0; i < widths.size(); row += widths[i++])
    kernels::nf4_dequantize_into(made.narrow(0, row, widths[i]).narrow(1, 0, in), linears.packed[i]);
  return made;
}

at::Tensor whole_weight(const FrozenLinears& linears, at::ScalarType type) {
  if (const auto laid = weight_with_room(linears, type, {}); laid.defined())
    return laid.narrow(0, 0, sum_of(widths_of(linears))).narrow(1, 0, input_width(linears));
  if (linears.packed.empty()) return joined(linears.weights, side_of(linears));
  std::vector<at::Tensor> each;
  for (const auto& packed : linears.packed) each.push_back(kernels::nf4_dequantize(packed, type));
  return each.size() == 1 ? each[0] : at::cat(each, 1);
}

// The changes of all linears as one: scale x down^T up^T. `up` has a block a linear and zeros elsewhere. Where linears
// differ in their scales, the blocks have them in them.
struct Change {
  std::vector<const LowRank*> parts;  // those that are there
  std::vector<int64_t> rows, ranks;   // where the block of each begins in `up`
  at::Tensor down, up;                // [ranks, in], [out, ranks]; undefined where there are none
  double scale = 1;
  double left(size_t i) const { return parts[i]->scale / scale; }  // of a part's scale, for its block
};

at::Tensor scaled(const at::Tensor& matrix, double scale) { return scale == 1 ? matrix : matrix.mul(scale); }

// `beside`: a matrix with the weights, whose columns behind them take `up`; undefined: it lies by itself.
Change change_of(const FrozenLinears& linears, const at::Tensor& beside = {}) {
  Change change;
  std::vector<at::Tensor> downs;
  const auto widths = widths_of(linears);
  int64_t row = 0, rank = 0;
  for (size_t i = 0; i < widths.size(); row += widths[i++]) {
    const auto& part = linears.changes[i];
    if (!part.a.defined()) continue;
    change.parts.push_back(&part), change.rows.push_back(row), change.ranks.push_back(rank);
    downs.push_back(part.a);
    rank += part.a.size(0);
  }
  if (change.parts.empty()) return change;
  change.down = joined(downs, 0);
  const double first = change.parts[0]->scale;
  if (std::all_of(change.parts.begin(), change.parts.end(), [&](const auto* part) { return part->scale == first; }))
    change.scale = first;
  std::vector<MatrixPart> blocks;
  for (size_t i = 0; i < change.parts.size(); ++i)
    blocks.push_back({scaled(change.parts[i]->b, change.left(i)), change.rows[i], change.ranks[i]});
  if (!beside.defined() && widths.size() == 1) {
    change.up = blocks[0].from;
    return change;
  }
  change.up = beside.defined() ? beside.narrow(0, 0, row).narrow(1, input_width(linears), rank)
                               : at::empty({row, rank}, change.down.options());
  put_together(change.up, blocks);
  return change;
}

bool drops(const Change& change) {
  return std::any_of(change.parts.begin(), change.parts.end(), [](const auto* part) { return part->dropout > 0; });
}

at::Tensor dropped(const at::Tensor& rows, const LowRank& part) {
  return part.dropout > 0 ? kernels::dropout(rows, part.dropout, part.place) : rows;
}

// [rows, ranks]
at::Tensor lowered(const at::Tensor& x, const Change& change) {
  if (!drops(change)) return kernels::gemm({.a = x, .b = change.down, .transpose_b = true, .scale = change.scale});
  std::vector<at::Tensor> low;
  for (const auto* part : change.parts)
    low.push_back(kernels::gemm({.a = dropped(x, *part), .b = part->a, .transpose_b = true, .scale = change.scale}));
  return at::cat(low, 1);
}

struct AdaptedOutput {
  at::Tensor out, low;  // low: undefined where there is no change
};
struct AdaptedProduct {
  kernels::Gemm last;  // which gives the output
  at::Tensor low;
};

// The change is made first, so that the sum with the frozen product is rounded once.
AdaptedProduct begin_forward(const at::Tensor& x, const FrozenLinears& linears, const at::Tensor& added) {
  const auto change = change_of(linears);
  AdaptedProduct made{{}, {}};
  at::Tensor sum = added;
  if (change.down.defined()) {
    made.low = lowered(x, change);
    sum = kernels::gemm({.a = made.low, .b = change.up, .transpose_b = true, .added = added});
  }
  made.last = {.a = x,
               .b = whole_weight(linears, x.scalar_type()),
               .transpose_b = !linears.in_out,
               .bias = joined(linears.biases, 0),
               .added = sum};
  return made;
}

AdaptedOutput forward_product(const at::Tensor& x, const FrozenLinears& linears, const at::Tensor& added) {
  const auto made = begin_forward(x, linears, added);
  return {kernels::gemm(made.last), made.low};
}

struct AdaptedNormOutput {
  AdaptedOutput made;
  kernels::NormStatistics statistics;
};

// The norm and the low products write side by side what one product reads with the weight and `up`.
AdaptedNormOutput forward_normed(const at::Tensor& hidden, const kernels::NormWeights& norm,
                                 const FrozenLinears& linears) {
  const int64_t in = input_width(linears), ranks = ranks_of(linears);
  const auto weight = ranks > 0 ? weight_with_room(linears, hidden.scalar_type(), {.columns = ranks}) : at::Tensor();
  if (!weight.defined()) {
    const auto normal = kernels::normalize(hidden, norm);
    return {forward_product(as_rows(normal.output), linears, {}), normal.statistics};
  }
  const int64_t rows = hidden.numel() / in, both = in + ranks;
  const auto beside = at::empty({rows, with_pitch(both)}, hidden.options());
  const auto x = beside.narrow(1, 0, in);
  const auto normal = kernels::normalize_into(x, hidden, norm);
  const auto change = change_of(linears, weight);
  AdaptedNormOutput found{{{}, lowered(x, change)}, normal.statistics};
  put_together(beside.narrow(1, in, ranks), {{found.made.low}});
  found.made.out = kernels::gemm({.a = beside.narrow(1, 0, both),
                                  .b = weight.narrow(0, 0, sum_of(widths_of(linears))).narrow(1, 0, both),
                                  .transpose_b = true,
                                  .bias = joined(linears.biases, 0)});
  return found;
}

struct Backward {
  Change change;
  at::Tensor of_low;       // gradient of the low products
  kernels::Gemm of_input;  // gives that of the input
};

// With A beneath the weight, and what came from above copied once beside the low products' gradient.
std::optional<Backward> backward_beside(const at::Tensor& above, const FrozenLinears& linears) {
  const int64_t in = input_width(linears), out = above.size(1), ranks = ranks_of(linears);
  if (ranks == 0 || linears.changes.size() != 1 || linears.changes[0].dropout > 0 || !wants_rows_beneath(in, out))
    return std::nullopt;
  const auto weight = weight_with_room(linears, above.scalar_type(), {.rows = ranks});
  if (!weight.defined()) return std::nullopt;
  Backward made{change_of(linears), {}, {}};
  const auto beside = at::empty({above.size(0), with_pitch(out + ranks)}, above.options());
  put_together(beside.narrow(1, 0, out), {{above}});
  made.of_low = beside.narrow(1, out, ranks);
  kernels::gemm_into(made.of_low, {.a = above, .b = made.change.up, .scale = made.change.scale});
  put_together(weight.narrow(0, out, ranks).narrow(1, 0, in), {{made.change.down}});
  made.of_input = {.a = beside.narrow(1, 0, out + ranks), .b = weight.narrow(0, 0, out + ranks).narrow(1, 0, in)};
  return made;
}

Backward begin_backward(const at::Tensor& above, const FrozenLinears& linears) {
  if (auto made = backward_beside(above, linears)) return *std::move(made);
  const auto weight = whole_weight(linears, above.scalar_type());
  const bool laid = linears.room.defined() && linears.room.size(1) >= input_width(linears) + ranks_of(linears);
  Backward made{change_of(linears, laid ? linears.room : at::Tensor()), {}, {}};
  const auto& change = made.change;
  at::Tensor added;
  if (change.down.defined()) {
    made.of_low = kernels::gemm({.a = above, .b = change.up, .scale = change.scale});
    if (!drops(change)) {
      added = kernels::gemm({.a = made.of_low, .b = change.down});
    } else {
      for (size_t i = 0; i < change.parts.size(); ++i) {
        const auto& part = *change.parts[i];
        const auto of_low = made.of_low.narrow(1, change.ranks[i], part.a.size(0));
        const auto one = dropped(kernels::gemm({.a = of_low, .b = part.a}), part);
        added = added.defined() ? added.add(one) : one;
      }
    }
  }
  made.of_input = {.a = above, .b = weight, .transpose_b = linears.in_out, .added = added};
  return made;
}

// Of each change that is there: A's gradients, then B's.
variable_list change_gradients(const at::Tensor& x, const at::Tensor& low, const at::Tensor& above,
                               const Backward& made) {
  const auto& change = made.change;
  if (!change.down.defined()) return {};
  variable_list of_a, of_b;
  const bool dropping = drops(change);
  const auto of_down = dropping ? at::Tensor() : kernels::weight_gradient(x, made.of_low, /*in_out=*/false);
  const auto of_up = kernels::weight_gradient(low, above, /*in_out=*/false);
  for (size_t i = 0; i < change.parts.size(); ++i) {
    const auto& part = *change.parts[i];
    const int64_t first = change.ranks[i], rank = part.a.size(0);
    of_a.push_back(
        dropping ? kernels::weight_gradient(dropped(x, part), made.of_low.narrow(1, first, rank), /*in_out=*/false)
                 : of_down.narrow(0, first, rank));
    of_b.push_back(scaled(of_up.narrow(0, change.rows[i], part.b.size(0)).narrow(1, first, rank), change.left(i)));
  }
  of_a.insert(of_a.end(), of_b.begin(), of_b.end());
  return of_a;
}

// The tensors of the changes, A of each and then B, as functions of autograd take them, and back into the struct.
std::vector<at::Tensor> trained_of(const FrozenLinears& linears) {
  std::vector<at::Tensor> list;
  for (const auto& part : linears.changes)
    if (part.a.defined()) list.push_back(part.a);
  for (const auto& part : linears.changes)
    if (part.a.defined()) list.push_back(part.b);
  return list;
}

void keep(AutogradContext* context, const FrozenLinears& linears, variable_list kept, at::TensorList trained) {
  kept.insert(kept.end(), trained.begin(), trained.end());
  context->save_for_backward(kept);
  context->saved_data["linears"] = c10::IValue::make_capsule(c10::make_intrusive<HeldLinears>(linears));
}

// With the changes' tensors as autograd kept them, which knows whether anybody wrote to them since.
FrozenLinears kept_linears(AutogradContext* context, at::TensorList trained) {
  auto linears = static_cast<HeldLinears&>(*context->saved_data.at("linears").toCapsule()).linears;
  size_t next = 0;
  const size_t half = trained.size() / 2;
  for (auto& part : linears.changes)
    if (part.a.defined()) part.a = trained[next], part.b = trained[half + next], ++next;
  return linears;
}

struct AdaptedNormLinear : torch::autograd::Function<AdaptedNormLinear> {
  static variable_list forward(AutogradContext* context, const at::Tensor& hidden, const at::Tensor& norm_weight,
                               const std::optional<at::Tensor>& norm_bias, at::TensorList trained,
                               const FrozenLinears& linears, double epsilon) {
    const auto [made, statistics] = forward_normed(hidden, {norm_weight, or_none(norm_bias), epsilon}, linears);
    keep(context, linears, {hidden, norm_weight, or_none(norm_bias), statistics.mean, statistics.inverse, made.low},
         trained);
    context->set_materialize_grads(false);
    context->saved_data["epsilon"] = epsilon;
    return {hidden, shaped_like(made.out, hidden)};
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto kept = context->get_saved_variables();
    const at::TensorList trained = at::TensorList(kept).slice(6);
    variable_list gradients{upstream[0], {}, {}};
    gradients.resize(3 + trained.size() + 2);  // the linears and epsilon are the last
    if (!upstream[1].defined()) return gradients;
    const auto linears = kept_linears(context, trained);
    const auto above = as_rows(upstream[1]);
    const auto made = begin_backward(above, linears);
    const auto found =
        kernels::norm_gradients(kept[0], {kept[1], kept[2], context->saved_data.at("epsilon").toDouble()},
                                {kept[3], kept[4]}, shaped_like(kernels::gemm(made.of_input), kept[0]), upstream[0],
                                {.output = !trained.empty(),
                                 .weights = kept[1].requires_grad() || (kept[2].defined() && kept[2].requires_grad())});
    gradients[0] = found.input, gradients[1] = found.weight, gradients[2] = found.bias;
    if (trained.empty()) return gradients;
    const auto of_changes = change_gradients(as_rows(found.output), kept[5], above, made);
    std::copy(of_changes.begin(), of_changes.end(), gradients.begin() + 3);
    return gradients;
  }
};

// Of the linears in (`travel` without `later`), or of one out, that are cut among processes; see block_ops.h.
struct AdaptedLinearResidual : torch::autograd::Function<AdaptedLinearResidual> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const std::optional<at::Tensor>& residual, at::TensorList trained,
                            const FrozenLinears& linears, std::optional<kernels::Activation> kind, bool last_use,
                            Travel* travel, LaterSum* later) {
    const bool in = travel != nullptr && later == nullptr;
    const auto whole = in ? travel->gather(input, {}, Sent::states).whole : input;
    const auto active = kind ? kernels::activate(whole, *kind) : whole;
    const auto made = begin_forward(as_rows(active), linears, residual ? as_rows(*residual) : at::Tensor());
    keep(context, linears, {whole, made.low}, trained);
    context->saved_data["kind"] = kind ? static_cast<int64_t>(*kind) : int64_t{-1};
    context->saved_data["last_use"] = last_use;
    context->saved_data["residual"] = residual.has_value();
    context->saved_data["in"] = in;
    keep_travel(context, travel);
    if (later != nullptr) return later->begin(*travel, input, made.last);
    return shaped_like(kernels::gemm(made.last), whole);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto kept = context->get_saved_variables();
    const at::TensorList trained = at::TensorList(kept).slice(2);
    const auto linears = kept_linears(context, trained);
    auto* travel = kept_travel(context);
    const bool in = context->saved_data.at("in").toBool();
    const auto above =
        as_rows(travel == nullptr || in ? upstream[0] : travel->gather(upstream[0], {}, Sent::gradients).whole);
    const auto made = begin_backward(above, linears);
    variable_list gradients{{}, context->saved_data.at("residual").toBool() ? upstream[0] : at::Tensor()};
    at::Tensor active = as_rows(kept[0]);
    Travel::Finish arrive = [] {};
    if (const int64_t kind = context->saved_data.at("kind").toInt(); kind >= 0) {
      const bool last_use = context->saved_data.at("last_use").toBool();
      const auto found =
          kernels::activation_gradients(active, kernels::gemm(made.of_input), static_cast<kernels::Activation>(kind),
                                        {.value = !trained.empty(), .in_place = last_use});
      if (last_use) kept[0].unsafeGetTensorImpl()->bump_version();  // whoever else kept it is told
      gradients[0] = found.input.view(kept[0].sizes()), active = found.again;
    } else if (in) {
      arrive = begin_input_gradient(context, made.of_input, kept[0], gradients[0]);
    } else {
      gradients[0] = shaped_like(kernels::gemm(made.of_input), kept[0]);
    }
    if (!trained.empty())
      for (auto& gradient : change_gradients(active, kept[1], above, made)) gradients.push_back(std::move(gradient));
    gradients.resize(2 + trained.size() + 5);  // the linears, the kind, last_use, travel and later are the last
    arrive();
    return gradients;
  }
};

// The products read all of it as the input's type.
void check_linears(const FrozenLinears& linears, const at::Tensor& input) {
  const size_t count = linears.weights.size() + linears.packed.size();
  HYPERION_CHECK(count > 0 && (linears.weights.empty() || linears.packed.empty()), "weights are whole, or in 4 bits");
  HYPERION_CHECK(linears.changes.size() == count && (linears.biases.empty() || linears.biases.size() == count),
                 "a change and a bias a linear");
  const auto alike = [&](const at::Tensor& tensor) {
    return !tensor.defined() || tensor.scalar_type() == input.scalar_type();
  };
  bool all = std::all_of(linears.weights.begin(), linears.weights.end(), alike) &&
             std::all_of(linears.biases.begin(), linears.biases.end(), alike);
  for (const auto& part : linears.changes) all = all && alike(part.a) && alike(part.b);
  HYPERION_CHECK(all, "frozen linears and their changes are of the input's type");
}

at::Tensor apply(const at::Tensor& input, std::optional<kernels::Activation> kind, const FrozenLinears& linears,
                 const at::Tensor& residual, bool last_use, Travel* travel = nullptr, LaterSum* later = nullptr) {
  check_linears(linears, input);
  HYPERION_CHECK(linears.changes.size() == 1 || !residual.defined(), "a residual is added to one linear");
  const auto trained = trained_of(linears);
  return AdaptedLinearResidual::apply(input, maybe(residual), at::TensorList(trained), linears, kind, last_use, travel,
                                      later);
}

}  // namespace

std::pair<at::Tensor, at::Tensor> norm_linear(const at::Tensor& hidden, const kernels::NormWeights& norm,
                                              const FrozenLinears& linears) {
  check_linears(linears, hidden);
  const auto trained = trained_of(linears);
  const auto out =
      AdaptedNormLinear::apply(hidden, norm.weight, maybe(norm.bias), at::TensorList(trained), linears, norm.epsilon);
  return {out[0], out[1]};
}

at::Tensor joined_linears(const at::Tensor& input, const FrozenLinears& linears, Travel* travel) {
  return apply(input, std::nullopt, linears, {}, false, travel);
}

at::Tensor summed_linear(const at::Tensor& input, std::optional<kernels::Activation> kind, const FrozenLinears& linears,
                         Travel& travel, bool last_use) {
  HYPERION_CHECK(linears.changes.size() == 1 && linears.biases.empty(),
                 "a sum is of one map, without a bias that would count several times");
  LaterSum later;
  const auto out = apply(input, kind, linears, {}, last_use, &travel, &later);
  later.make();
  return out;
}

at::Tensor linear_residual(const at::Tensor& input, const FrozenLinears& linears, const at::Tensor& residual) {
  return apply(input, std::nullopt, linears, residual, false);
}

at::Tensor activated_linear_residual(const at::Tensor& input, kernels::Activation kind, const FrozenLinears& linears,
                                     const at::Tensor& residual, bool last_use) {
  return apply(input, kind, linears, residual, last_use);
}

}  // namespace hyperion::blocks
