// Matrix products with what surrounds them done in the same pass: a bias or a residual added.
// cuBLASLt on a GPU, PyTorch's operations elsewhere. Not differentiable: operations with gradients are made of these.
#pragma once
#include <ATen/core/Tensor.h>

namespace hyperion::kernels {

// [rows, k] x [k, columns], each transposed before where it says so; `bias` [columns] and `added` [rows, columns] may
// be undefined. All of one type; sums in fp32.
struct Product {
  at::Tensor a, b;
  bool a_turned = false, b_turned = false;
  at::Tensor bias = {}, added = {};
};
at::Tensor product(const Product& product);
void product_into(at::Tensor out, const Product& product);  // out: contiguous

// out (fp32) += a b, or = where `first`.
void add_product(at::Tensor out, const Product& product, bool first);

// Of out = x W: W's gradient, shaped as W: [in, out] or, unless in_out, [out, in]. x: [rows, in], upstream: [rows,
// out].
at::Tensor weight_gradient(const at::Tensor& x, const at::Tensor& upstream, bool in_out);

// The sums of [rows, columns] over its rows.
at::Tensor column_sums(const at::Tensor& input);

}  // namespace hyperion::kernels
