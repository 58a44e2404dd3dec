// What the operations of block_ops.h share: several maps taken as one, and gradients cut apart again.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace hyperion::kernels {

// The parts one behind the other along `dimension`: a view where they lie so in memory, else a copy; undefined where
// there are none.
at::Tensor joined(at::TensorList parts, int64_t dimension);
// Views of `whole`, shaped as the parts are.
std::vector<at::Tensor> parted(const at::Tensor& whole, at::TensorList parts, int64_t dimension);

// [..., width] as [rows, width].
at::Tensor as_rows(const at::Tensor& tensor);
// [rows, columns] shaped as `like` but for the last side.
at::Tensor shaped_like(const at::Tensor& rows, const at::Tensor& like);

// Functions of autograd take a tensor that may be missing as an optional.
inline std::optional<at::Tensor> maybe(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}
inline at::Tensor or_none(const std::optional<at::Tensor>& tensor) { return tensor.value_or(at::Tensor()); }

}  // namespace hyperion::kernels
