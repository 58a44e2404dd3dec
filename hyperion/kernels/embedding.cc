#include "hyperion/kernels/embedding.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/kernels/embedding_math.h"
#include "hyperion/kernels/tensor_forms.h"
#include "hyperion/kernels/typed.h"

namespace hyperion::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct TableGradient {
  const void* table = nullptr;
  int pass = -1;  // autograd's number of the backward that made it
  c10::weak_intrusive_ptr<c10::TensorImpl> gradient{c10::intrusive_ptr<c10::TensorImpl>()};
};
thread_local TableGradient left_table;

// The gradient that was left_table for this table in this pass; undefined: none, or not one to add to in place.
at::Tensor take_table_gradient(const void* table, at::IntArrayRef sizes, const at::Tensor& like) {
  const auto note = std::exchange(left_table, {});
  if (note.table != table || note.pass != torch::autograd::get_current_graph_task_id()) return {};
  const auto alive = note.gradient.lock();
  if (!alive) return {};
  const at::Tensor gradient(alive);
  const bool fits = gradient.sizes() == sizes && gradient.is_contiguous() && gradient.device() == like.device() &&
                    gradient.scalar_type() == like.scalar_type();
  return fits ? gradient : at::Tensor();
}

at::Tensor look_up(const at::Tensor& given, const at::Tensor& numbers, const at::Tensor& positions, int64_t first) {
  const auto table = given.contiguous(), ids = numbers.contiguous();
  const auto added = positions.defined() ? positions.narrow(0, first, ids.size(-1)).contiguous() : positions;
  auto shape = ids.sizes().vec();
  shape.push_back(table.size(1));
  const auto out = at::empty(shape, table.options());
  with_type(table.scalar_type(), [&]<class T>(T) {
    const EmbeddingRows<T> all{.table = pointer<const T>(table),
                               .positions = pointer<const T>(added),
                               .ids = pointer<const int64_t>(ids),
                               .out = pointer<T>(out),
                               .tokens = ids.numel(),
                               .length = ids.dim() > 0 ? ids.size(-1) : 1,
                               .rows = table.size(0),
                               .width = table.size(1)};
    table.is_cuda() ? on_gpu([&] { embedding_gpu(all, stream_of(table)); }) : embedding_cpu(all);
  });
  return out;
}

void add_rows(const at::Tensor& table, const at::Tensor& dy, const at::Tensor& ids) {
  const int64_t tokens = ids.numel();
  at::Tensor order, partial;
  if (dy.is_cuda()) {
    order = at::empty({embedding_order_workspace(tokens)}, dy.options().dtype(at::kInt));
    partial = at::empty({embedding_partial_workspace(tokens, table.size(1))}, dy.options().dtype(at::kFloat));
  }
  with_type(dy.scalar_type(), [&]<class T>(T) {
    const EmbeddingGradient<T> all{.dy = pointer<const T>(dy),
                                   .ids = pointer<const int64_t>(ids),
                                   .table = pointer<T>(table),
                                   .order = pointer<int32_t>(order),
                                   .partial = pointer<float>(partial),
                                   .tokens = tokens,
                                   .rows = table.size(0),
                                   .width = table.size(1)};
    dy.is_cuda() ? on_gpu([&] { embedding_gradient_gpu(all, stream_of(dy)); }) : embedding_gradient_cpu(all);
  });
}

at::Tensor positions_gradient(const at::Tensor& dy, int64_t rows, int64_t first, int64_t length) {
  const auto out = at::empty({rows, dy.size(-1)}, dy.options());
  with_type(dy.scalar_type(), [&]<class T>(T) {
    const PositionsGradient<T> all{.dy = pointer<const T>(dy),
                                   .positions = pointer<T>(out),
                                   .texts = dy.numel() / (length * dy.size(-1)),
                                   .length = length,
                                   .first = first,
                                   .rows = rows,
                                   .width = dy.size(-1)};
    dy.is_cuda() ? on_gpu([&] { positions_gradient_gpu(all, stream_of(dy)); }) : positions_gradient_cpu(all);
  });
  return out;
}

struct Embedding : torch::autograd::Function<Embedding> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& table, const at::Tensor& ids,
                            const std::optional<at::Tensor>& positions, int64_t first) {
    context->save_for_backward({ids.contiguous()});
    auto& data = context->saved_data;
    data["table"] = reinterpret_cast<int64_t>(table.unsafeGetTensorImpl());
    data["rows"] = table.size(0), data["first"] = first, data["positions"] = positions ? positions->size(0) : 0;
    return look_up(table, ids, or_none(positions), first);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto ids = context->get_saved_variables()[0];
    const auto& data = context->saved_data;
    const auto dy = upstream[0].contiguous();
    variable_list gradients(4);
    if (context->needs_input_grad(0)) {
      const int64_t sizes[] = {data.at("rows").toInt(), dy.size(-1)};
      auto table = take_table_gradient(reinterpret_cast<const void*>(data.at("table").toInt()), sizes, dy);
      if (!table.defined()) gradients[0] = table = at::zeros(sizes, dy.options());
      if (ids.numel() > 0) add_rows(table, dy, ids);
    }
    const int64_t positions = data.at("positions").toInt();
    if (positions > 0 && context->needs_input_grad(2))
      gradients[2] = positions_gradient(dy, positions, data.at("first").toInt(), ids.size(-1));
    return gradients;
  }
};

// A GPU is not asked: it would have to be waited for, and what comes of a wrong number is no number.
void check_ids(const at::Tensor& table, const at::Tensor& ids) {
  HYPERION_CHECK(table.dim() == 2 && ids.scalar_type() == at::kLong && ids.device() == table.device(),
                 "an embedding takes a table [rows, width] and int64 numbers on its device");
  HYPERION_CHECK(std::max(table.size(0), ids.numel()) < std::numeric_limits<int32_t>::max(),
                 "rows and tokens are counted in 32 bits");
  if (!ids.is_cpu() || ids.numel() == 0) return;
  const auto [least, most] = at::aminmax(ids);
  if (least.item<int64_t>() >= 0 && most.item<int64_t>() < table.size(0)) return;
  throw base::Error(base::format("numbers of rows from {} to {} in a table of {}", least.item<int64_t>(),
                                 most.item<int64_t>(), table.size(0)),
                    "are the data of the model's vocabulary?");
}

}  // namespace

void leave_table_gradient(const at::TensorImpl* table, const at::Tensor& gradient) {
  left_table = {table, torch::autograd::get_current_graph_task_id(),
                c10::weak_intrusive_ptr<c10::TensorImpl>(gradient.getIntrusivePtr())};
}

at::Tensor embedding(const at::Tensor& table, const at::Tensor& ids) {
  check_ids(table, ids);
  return Embedding::apply(table, ids, std::nullopt, 0);
}

at::Tensor embedding_at(const at::Tensor& table, const at::Tensor& ids, const at::Tensor& positions, int64_t first) {
  check_ids(table, ids);
  HYPERION_CHECK(ids.dim() == 2 && ids.numel() > 0 && first >= 0 && first + ids.size(1) <= positions.size(0) &&
                     positions.size(1) == table.size(1) && positions.scalar_type() == table.scalar_type(),
                 "texts [texts, length] must fit the table of positions, which is as wide as the other");
  return Embedding::apply(table, ids, positions, first);
}

at::Tensor embedding_at_reference(const at::Tensor& table, const at::Tensor& ids, const at::Tensor& positions,
                                  int64_t first) {
  return at::embedding(table, ids).add(at::embedding(positions, at::arange(first, first + ids.size(1), ids.options())));
}

}  // namespace hyperion::kernels
