#include "hyperion/parallel/tensor_shards.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "hyperion/kernels/gemm.h"
#include "hyperion/kernels/kept_reference.h"

namespace hyperion::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kMostPieces = 4;

const char* caller_of(nn::Sent sent) { return sent == nn::Sent::states ? "hidden states" : "hidden gradients"; }
const char *kStates = caller_of(nn::Sent::states), *kGradients = caller_of(nn::Sent::gradients);

// The same on every process.
struct Pieces {
  struct Piece {
    int64_t first, count;
  };
  std::vector<Piece> list;

  Pieces(int64_t all, int64_t rows) {
    const int64_t count = std::clamp<int64_t>(std::min(rows / kRowsAtOnce, all), 1, kMostPieces);
    for (int64_t i = 0; i < count; ++i) list.push_back({all * i / count, all * (i + 1) / count - all * i / count});
  }
};

// Of [samples, length, width] that is cut along the length: some samples or, where there is but one of them, some
// tokens of every process.
struct PiecesOfParts : Pieces {
  bool by_sample;
  PiecesOfParts(const at::Tensor& own, int64_t rows)
      : Pieces(own.size(0) == 1 && rows >= 2 * kRowsAtOnce ? own.size(1) : own.size(0), rows),
        by_sample(own.size(0) > 1 || rows < 2 * kRowsAtOnce) {}
  at::Tensor of(const at::Tensor& own, const Piece& piece) const {
    return own.narrow(by_sample ? 0 : 1, piece.first, piece.count);
  }
};

void make_rows(const at::Tensor& out, const kernels::Gemm& product, int64_t first) {
  kernels::gemm_into(out, kernels::rows_of(product, first, out.size(0)));
}

void keep(AutogradContext* context, comm::Group& group, bool by_sequence) {
  kernels::keep_reference(context, "group", group);
  context->saved_data["by_sequence"] = by_sequence;
}
comm::Group& group_of(AutogradContext* context) { return kernels::kept_reference<comm::Group>(context, "group"); }

at::Tensor sum_of(const at::Tensor& part, comm::Group& group, const char* caller) {
  const auto sum = part.clone(at::MemoryFormat::Contiguous);
  group.all_reduce(sum, caller).wait();
  return sum;
}

kernels::Gemm with_input(kernels::Gemm product, const at::Tensor& input) {
  product.a = input.reshape({-1, input.size(-1)});
  return product;
}

// [samples, length, width] as the tokens of each process one after the other.
at::Tensor process_by_process(const at::Tensor& all, int64_t processes) {
  return all.view({all.size(0), processes, all.size(1) / processes, all.size(2)}).transpose(0, 1).contiguous();
}

at::Tensor own_sum(const at::Tensor& part, comm::Group& group, const char* caller) {
  const auto sum =
      at::empty({part.size(0), part.size(1) / group.size(), part.size(2)}, part.options().dtype(at::kFloat));
  group.reduce_scatter(sum, process_by_process(part, group.size()), caller).wait();
  return sum.to(part.scalar_type());
}

struct Into : torch::autograd::Function<Into> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, comm::Group* group, bool by_sequence) {
    keep(context, *group, by_sequence);
    return by_sequence ? HiddenStates(*group, true).gather(hidden, {}, nn::Sent::states).whole : hidden.view_as(hidden);
  }
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    auto& group = group_of(context);
    const bool by_sequence = context->saved_data.at("by_sequence").toBool();
    return {by_sequence ? own_sum(upstream[0].contiguous(), group, kGradients) : sum_of(upstream[0], group, kGradients),
            {},
            {}};
  }
};

struct OutOf : torch::autograd::Function<OutOf> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& part, comm::Group* group, bool by_sequence) {
    keep(context, *group, by_sequence);
    return by_sequence ? own_sum(part.contiguous(), *group, kStates) : sum_of(part, *group, kStates);
  }
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const bool by_sequence = context->saved_data.at("by_sequence").toBool();
    return {HiddenStates(group_of(context), by_sequence).gather(upstream[0], {}, nn::Sent::gradients).whole, {}, {}};
  }
};

}  // namespace

nn::Travel::Finish HiddenStates::sum(const at::Tensor& out, const kernels::Gemm& product, nn::Sent sent) {
  if (by_sequence_) return sum_of_parts(out, product, caller_of(sent));
  const auto rows = out.view({-1, out.size(-1)});
  std::vector<comm::Pending> under_way;
  for (const auto& [first, count] : Pieces(rows.size(0), rows.size(0)).list) {
    const auto piece = rows.narrow(0, first, count);
    make_rows(piece, product, first);
    under_way.push_back(group_.all_reduce(piece, caller_of(sent)));
  }
  return [under_way]() mutable {
    for (auto& call : under_way) call.wait();
  };
}

nn::Travel::Finish HiddenStates::sum_of_parts(const at::Tensor& out, const kernels::Gemm& product, const char* caller) {
  const int64_t processes = group_.size(), own = out.size(1), length = processes * own, width = out.size(2);
  const auto options = product.a.options();
  struct Sum {
    at::Tensor fp32, place;
    comm::Pending call;
  };
  std::vector<Sum> under_way;
  const PiecesOfParts pieces(out, out.size(0) * length);
  for (const auto& piece : pieces.list) {
    at::Tensor part;
    if (pieces.by_sample) {
      part = at::empty({piece.count, length, width}, options);
      make_rows(part.view({-1, width}), product, piece.first * length);
      part = process_by_process(part, processes);
    } else {
      part = at::empty({processes, piece.count, width}, options);
      for (int64_t i = 0; i < processes; ++i) make_rows(part[i], product, i * own + piece.first);
    }
    const auto place = pieces.of(out, piece);
    const auto fp32 = place.scalar_type() == at::kFloat ? place : at::empty(place.sizes(), options.dtype(at::kFloat));
    under_way.push_back({fp32, place, group_.reduce_scatter(fp32, part, caller)});
  }
  return [under_way]() mutable {
    for (auto& [fp32, place, call] : under_way) {
      call.wait();
      if (!fp32.is_same(place)) place.copy_(fp32);
    }
  };
}

nn::Travel::Gathered HiddenStates::gather(const at::Tensor& own, const kernels::Gemm& product, nn::Sent sent) {
  at::Tensor out;
  if (product.b.defined()) {
    const int64_t rows = own.numel() / own.size(-1) * parts();
    out = at::empty({rows, product.b.size(product.transpose_b ? 0 : 1)}, own.options());
  }
  if (by_sequence_) return {gather_parts(own, product, out, caller_of(sent)), out};
  if (out.defined()) make_rows(out, with_input(product, own), 0);
  return {own, out};
}

at::Tensor HiddenStates::gather_parts(const at::Tensor& given, const kernels::Gemm& product, const at::Tensor& out,
                                      const char* caller) {
  const auto own = given.contiguous();
  const int64_t processes = group_.size(), samples = own.size(0), tokens = own.size(1), width = own.size(2);
  struct Part {
    at::Tensor all;
    comm::Pending call;
  };
  std::vector<Part> under_way;
  const PiecesOfParts pieces(own, out.defined() ? out.size(0) : 0);
  for (const auto& piece : pieces.list) {
    const auto part = pieces.of(own, piece);
    const auto all = at::empty({processes, part.size(0), part.size(1), width}, own.options());
    under_way.push_back({all, group_.all_gather(all, part, caller)});
  }
  const auto whole = at::empty({samples, processes * tokens, width}, own.options());
  const auto by_process = whole.view({samples, processes, tokens, width}).transpose(0, 1);
  const auto made = with_input(product, whole);
  for (size_t i = 0; i < under_way.size(); ++i) {
    const auto [first, count] = pieces.list[i];
    under_way[i].call.wait();
    by_process.narrow(pieces.by_sample ? 1 : 2, first, count).copy_(under_way[i].all);
    if (!out.defined()) continue;
    // Rows that have arrived lie together, of one sample those of each process.
    const int64_t runs = pieces.by_sample ? 1 : processes, length = pieces.by_sample ? processes * tokens : 1;
    for (int64_t run = 0; run < runs; ++run)
      make_rows(out.narrow(0, run * tokens + first * length, count * length), made, run * tokens + first * length);
  }
  return whole;
}

at::Tensor TensorShards::into(const at::Tensor& hidden, bool by_sequence) {
  return Into::apply(hidden, &group_, by_sequence);
}

at::Tensor TensorShards::out_of(const at::Tensor& part, bool by_sequence) {
  return OutOf::apply(part, &group_, by_sequence);
}

at::Tensor TensorShards::gather(const at::Tensor& own) {
  auto sizes = own.sizes().vec();
  sizes.insert(sizes.begin(), group_.size());
  const auto all = at::empty(sizes, own.options().requires_grad(false));
  group_.all_gather(all, own.detach().contiguous(), "logits").wait();
  return all;
}

}  // namespace hyperion::parallel
