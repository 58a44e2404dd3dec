#include "hyperion/kernels/gemm.h"

#include <ATen/Context.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include "hyperion/device/tuning_cache.h"
#include "hyperion/kernels/column_sums_math.h"
#include "hyperion/kernels/gemm_gpu.h"
#include "hyperion/kernels/typed.h"

namespace hyperion::kernels {
namespace {

GemmType type_of(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kFloat) return GemmType::fp32;
  if (tensor.scalar_type() == at::kBFloat16) return GemmType::bf16;
  HYPERION_CHECK(tensor.scalar_type() == at::kHalf, "products take fp32, bf16 or fp16");
  return GemmType::fp16;
}

bool ours(const Gemm& p) { return p.a.is_cuda() && p.a.numel() > 0 && p.b.numel() > 0; }

// As it lies where the library reads it so in large pieces, else a copy.
at::Tensor in_rows_for_product(const at::Tensor& matrix) {
  if (!matrix.defined() || matrix.is_contiguous()) return matrix;
  const auto bytes = static_cast<int64_t>(matrix.element_size());
  const bool rows = matrix.dim() == 2 && matrix.stride(1) == 1 && matrix.stride(0) >= matrix.size(1);
  const bool pieces =
      matrix.stride(0) * bytes % 16 == 0 && reinterpret_cast<uintptr_t>(matrix.const_data_ptr()) % 16 == 0;
  return rows && pieces ? matrix : matrix.contiguous();
}

int64_t pitch_of(const at::Tensor& matrix) {
  return !matrix.defined() || matrix.is_contiguous() ? 0 : matrix.stride(0);
}

at::Tensor transposed(const at::Tensor& matrix, bool yes) { return yes ? matrix.t() : matrix; }

RawGemm raw(const Gemm& p, const at::Tensor& a, const at::Tensor& b, const at::Tensor& added, const at::Tensor& out) {
  const int64_t k = p.transpose_a ? a.size(0) : a.size(1);
  HYPERION_CHECK(k == (p.transpose_b ? b.size(1) : b.size(0)), "the inner sides of a product are equal");
  return {.a = a.const_data_ptr(),
          .b = b.const_data_ptr(),
          .c = pointer<const void>(added),
          .bias = pointer<const void>(p.bias),
          .d = out.data_ptr(),
          .rows = out.size(0),
          .columns = out.size(1),
          .k = k,
          .transpose_a = p.transpose_a,
          .transpose_b = p.transpose_b,
          .type = type_of(a),
          .out = type_of(out),
          .may_round_to_tf32 = at::globalContext().allowTF32CuBLAS(),
          .scale = static_cast<float>(p.scale),
          .a_pitch = pitch_of(a),
          .b_pitch = pitch_of(b),
          .c_pitch = pitch_of(added),
          .d_pitch = pitch_of(out)};
}

at::Tensor by_torch(const Gemm& p) {
  const auto a = transposed(p.a, p.transpose_a), b = transposed(p.b, p.transpose_b);
  const auto out = p.bias.defined() ? at::addmm(p.bias, a, b, 1, p.scale)
                   : p.scale != 1   ? at::mm(a, b).mul_(p.scale)
                                    : at::mm(a, b);
  return p.added.defined() ? out.add(p.added) : out;
}

}  // namespace

at::Tensor gemm(const Gemm& p) {
  if (!ours(p)) return by_torch(p);
  auto out = at::empty({p.a.size(p.transpose_a ? 1 : 0), p.b.size(p.transpose_b ? 0 : 1)}, p.a.options());
  gemm_into(out, p);
  return out;
}

void gemm_into(at::Tensor out, const Gemm& p) {
  if (ours(p)) {
    const auto a = in_rows_for_product(p.a), b = in_rows_for_product(p.b), added = in_rows_for_product(p.added);
    if (out.is_same(in_rows_for_product(out)) &&
        on_gpu([&] { return gemm_gpu(raw(p, a, b, added, out), device::is_tuning(), stream_of(a)); }))
      return;
  }
  out.copy_(by_torch(p));
}

Gemm rows_of(Gemm p, int64_t first, int64_t count) {
  p.a = p.a.narrow(p.transpose_a ? 1 : 0, first, count);
  if (p.added.defined()) p.added = p.added.narrow(0, first, count);
  return p;
}

void gemm_add(const at::Tensor& out, const Gemm& p, bool first) {
  if (ours(p)) {
    const auto a = in_rows_for_product(p.a), b = in_rows_for_product(p.b);
    auto what = raw(p, a, b, first ? at::Tensor() : out, out);
    if (on_gpu([&] { return gemm_gpu(what, device::is_tuning(), stream_of(a)); })) return;
  }
  const auto value = by_torch({p.a, p.b, p.transpose_a, p.transpose_b, {}, {}, p.scale});
  first ? out.copy_(value) : out.add_(value);
}

// cuBLASLt can sum a bias's gradient beside the product; on an H200 that costs more than a pass of its own (62.1 ms
// against 59.5 for a step of GPT-2 124M at batch 32).
at::Tensor weight_gradient(const at::Tensor& x, const at::Tensor& upstream, bool in_out) {
  return gemm({.a = in_out ? x : upstream, .b = in_out ? upstream : x, .transpose_a = true});
}

at::Tensor column_sums(const at::Tensor& given) {
  if (!given.is_cuda() || given.size(0) == 0) return given.sum(0);
  const auto input = given.contiguous();
  auto sums = at::empty({input.size(1)}, input.options());
  const auto partial = at::empty({on_gpu([&] { return column_sum_parts(input.size(0)); }), input.size(1)},
                                 input.options().dtype(at::kFloat));
  with_type(input.scalar_type(), [&]<class T>(T) {
    on_gpu([&] {
      column_sums_gpu<T>(pointer<T>(input), input.size(0), input.size(1), pointer<float>(partial), pointer<T>(sums),
                         stream_of(input));
    });
  });
  return sums;
}

}  // namespace hyperion::kernels
