#include "hyperion/checkpoint/staged_state.h"

#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <bit>

#include "hyperion/profile/span.h"

namespace hyperion::checkpoint {

uint64_t StagedState::bytes(const std::vector<nn::Parameter>& tensors) {
  uint64_t sum = 0;
  for (const auto& item : tensors)
    sum += item.tensor.is_cpu() ? item.tensor.nbytes() : std::bit_ceil(item.tensor.nbytes());
  return sum;
}

bool StagedState::holds(const std::vector<nn::Parameter>& tensors) const {
  return std::all_of(tensors.begin(), tensors.end(), [&](const nn::Parameter& item) {
    const auto found = copies_.find(item.name);
    return found != copies_.end() && found->second.sizes() == item.tensor.sizes() &&
           found->second.scalar_type() == item.tensor.scalar_type();
  });
}

void StagedState::take(const std::vector<nn::Parameter>& tensors) {
  copies_.clear();
  for (const auto& item : tensors)
    copies_[item.name] = at::empty(
        item.tensor.sizes(), at::TensorOptions().dtype(item.tensor.scalar_type()).pinned_memory(!item.tensor.is_cpu()));
}

Snapshot StagedState::copy(const Snapshot& live) const {
  const profile::Span span("checkpoint copy");
  Snapshot staged = live;
  c10::Device device = c10::kCPU;
  for (auto& item : staged.tensors) {
    const at::Tensor& copy = copies_.at(item.name);
    if (!item.tensor.is_cpu()) device = item.tensor.device();
    copy.copy_(item.tensor.detach(), /*non_blocking=*/true);
    item.tensor = copy;
  }
  if (device.is_cpu()) return staged;
  c10::Event arrived(device.type());
  arrived.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  arrived.synchronize();
  return staged;
}

}  // namespace hyperion::checkpoint
