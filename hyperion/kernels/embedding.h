// Rows of a table by number, and their gradient: summed in fp32 and in a fixed order, with nothing that waits for the
// device.
#pragma once
#include <ATen/core/Tensor.h>

namespace hyperion::kernels {

// table [rows, width], ids int64 of any shape, each below rows -> [ids..., width]; fp32, bf16 or fp16; differentiable.
at::Tensor embedding(const at::Tensor& table, const at::Tensor& ids);
// The same with a second table's rows `first`, `first` + 1, ... added along each text: ids [texts, length].
at::Tensor embedding_at(const at::Tensor& table, const at::Tensor& ids, const at::Tensor& positions, int64_t first);

// The same of plain operations.
at::Tensor embedding_at_reference(const at::Tensor& table, const at::Tensor& ids, const at::Tensor& positions,
                                  int64_t first);

// A table that is also the output's weights has two gradients. An operation whose backward has just made the one of the
// whole table says so; an embedding's backward later in the same pass, by the same thread, then adds its few rows to
// it in place, and autograd has no second whole gradient to add. Only its being there is noted: it is not kept alive.
void leave_table_gradient(const at::TensorImpl* table, const at::Tensor& gradient);

}  // namespace hyperion::kernels
