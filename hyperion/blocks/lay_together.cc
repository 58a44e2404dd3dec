#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "hyperion/blocks/adapted_linear.h"
#include "hyperion/blocks/block_ops.h"
#include "hyperion/blocks/linears.h"

namespace hyperion::blocks {

void lay_together(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  int64_t count = 0;
  for (const auto& tensor : tensors) count += tensor.numel();
  auto whole = at::empty({count}, tensors[0].options().requires_grad(false));
  int64_t first = 0;
  for (const auto& tensor : tensors) {
    const auto place = whole.narrow(0, first, tensor.numel()).view(tensor.sizes());
    place.copy_(tensor.detach());
    at::Tensor(tensor).set_data(place);
    first += tensor.numel();
  }
}

LaidRoom::LaidRoom(const std::vector<at::Tensor>& weights, RoomBeside room) {
  const at::NoGradGuard no_grad;
  int64_t out = 0;
  for (const auto& weight : weights) out += weight.size(0);
  const int64_t in = weights[0].size(1);
  auto whole = at::zeros({out + room.rows, room.columns > 0 ? with_pitch(in + room.columns) : in},
                         weights[0].options().requires_grad(false));
  int64_t row = 0;
  for (const auto& weight : weights) {
    const auto place = whole.narrow(0, row, weight.size(0)).narrow(1, 0, in);
    place.copy_(weight.detach());
    at::Tensor(weight).set_data(place);
    row += weight.size(0);
  }
  storage_.emplace(whole.storage().getWeakStorageImpl());
  rows_ = whole.size(0), columns_ = whole.size(1);
}

at::Tensor LaidRoom::around(const at::Tensor& weight) const {
  if (!storage_ || !weight.defined() || weight.storage_offset() != 0) return {};
  const auto storage = storage_->lock();
  if (!storage || storage.get() != weight.storage().unsafeGetStorageImpl()) return {};
  return weight.detach().as_strided({rows_, columns_}, {columns_, 1}, 0);
}

}  // namespace hyperion::blocks
