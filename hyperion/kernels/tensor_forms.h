// A tensor in the form that a kernel or a function of autograd takes.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace hyperion::kernels {

// [..., width] as [rows, width].
inline at::Tensor as_rows(const at::Tensor& tensor) { return tensor.reshape({-1, tensor.size(-1)}); }
// [rows, columns] shaped as `like` but for the last side.
inline at::Tensor shaped_like(const at::Tensor& rows, const at::Tensor& like) {
  auto shape = like.sizes().vec();
  shape.back() = rows.size(1);
  return rows.view(shape);
}

// Functions of autograd take a tensor that may be missing as an optional.
inline std::optional<at::Tensor> maybe(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}
inline at::Tensor or_none(const std::optional<at::Tensor>& tensor) { return tensor.value_or(at::Tensor()); }

}  // namespace hyperion::kernels
