// The global gradient norm and the factor that clips it, both left on the device: no stall.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace hyperion::optim {

struct ClipResult {
  at::Tensor norm;   // fp32 scalar, before clipping
  at::Tensor scale;  // fp32 scalar, min(1, limit / norm) / loss_scale
};

// Reduced in fp32, in the order given, whatever the gradients' type. limit 0: nothing is clipped. `loss_scale` is what
// the gradients were multiplied with; the norm is that of the true ones.
ClipResult clip_factor(const std::vector<at::Tensor>& gradients, double limit, double loss_scale = 1);
// The same in two parts, where some gradients are elsewhere: the norm of each, fp32 [gradients], and what follows.
at::Tensor norms_of(const std::vector<at::Tensor>& gradients);
ClipResult clip_norms(const at::Tensor& norms, double limit, double loss_scale = 1);
// The same of a norm found elsewhere, already divided by the loss scale.
ClipResult clip_to(const at::Tensor& norm, double limit, double loss_scale = 1);

}  // namespace hyperion::optim
