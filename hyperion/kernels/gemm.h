// Matrix products with what surrounds them done in the same pass: a bias or a residual added.
// cuBLASLt on a GPU, PyTorch's operations elsewhere. Not differentiable: operations with gradients are made of these.
#pragma once
#include <ATen/core/Tensor.h>

namespace hyperion::kernels {

// [rows, k] x [k, columns], each transposed before where it says so; `bias` [columns] and `added` [rows, columns] may
// be undefined. All of one type; sums in fp32. Rows may lie apart, as a part of wider ones.
struct Gemm {
  at::Tensor a, b;
  bool transpose_a = false, transpose_b = false;
  at::Tensor bias = {}, added = {};
  double scale = 1;  // of the product alone
};
at::Tensor gemm(const Gemm& p);
void gemm_into(at::Tensor out, const Gemm& p);
// So many rows of it.
Gemm rows_of(Gemm p, int64_t first, int64_t count);

// out (fp32) += a b, or = where `first`.
void gemm_add(const at::Tensor& out, const Gemm& product, bool first);

// Of out = x W: W's gradient, shaped as W: [in, out] or, unless in_out, [out, in]. x: [rows, in], upstream: [rows,
// out].
at::Tensor weight_gradient(const at::Tensor& x, const at::Tensor& upstream, bool in_out);

// The sums of [rows, columns] over its rows.
at::Tensor column_sums(const at::Tensor& input);

}  // namespace hyperion::kernels
