#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "hyperion/blocks/block_ops.h"

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

}  // namespace hyperion::blocks
