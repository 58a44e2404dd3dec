#include "hyperion/optim/staging.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace hyperion::optim {
namespace {

c10::Stream current_stream(at::Device device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

// One for each direction, made once: copies in both directions may run at the same time.
c10::Stream side_stream(at::Device device, bool to_host) {
  static const c10::Stream streams[] = {
      c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, /*isHighPriority=*/false),
      c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, /*isHighPriority=*/false)};
  return streams[to_host];
}

}  // namespace

at::Tensor Staging::to_host(const at::Tensor& tensor) const {
  const auto options = tensor.options().device(at::kCPU).pinned_memory(device_.is_cuda());
  return at::empty(tensor.sizes(), options).copy_(tensor.detach());
}

void Staging::fetch(const Group& host) {
  Fetched fetched;
  if (!device_.is_cuda()) {
    for (const auto& tensor : host) fetched.tensors.push_back(tensor.clone());
    return under_way_.push_back(std::move(fetched));
  }
  const auto stream = side_stream(device_, /*to_host=*/false);
  if (sent_) sent_->block(stream);  // what is fetched may be on its way back still
  const auto computing = current_stream(device_);
  const c10::StreamGuard guard(stream);
  for (const auto& tensor : host) {
    auto copy = at::empty(tensor.sizes(), tensor.options().device(device_).pinned_memory(false));
    copy.copy_(tensor, /*non_blocking=*/true);
    copy.record_stream(computing);
    fetched.tensors.push_back(copy);
  }
  fetched.arrived.emplace(device_.type());
  fetched.arrived->record(stream);
  under_way_.push_back(std::move(fetched));
}

Group Staging::arrive() {
  Fetched fetched = std::move(under_way_.front());
  under_way_.pop_front();
  if (fetched.arrived) fetched.arrived->block(current_stream(device_));
  return std::move(fetched.tensors);
}

void Staging::send_back(const Group& on_device, const Group& host) {
  if (!device_.is_cuda()) {
    for (size_t i = 0; i < host.size(); ++i) host[i].copy_(on_device[i]);
    return;
  }
  const auto stream = side_stream(device_, /*to_host=*/true);
  c10::Event updated(device_.type());
  updated.record(current_stream(device_));
  updated.block(stream);
  const c10::StreamGuard guard(stream);
  for (size_t i = 0; i < host.size(); ++i) {
    host[i].copy_(on_device[i], /*non_blocking=*/true);
    on_device[i].record_stream(stream);
  }
  sent_.emplace(device_.type());
  sent_->record(stream);
}

void Staging::finish() {
  if (sent_) sent_->synchronize();
}

}  // namespace hyperion::optim
