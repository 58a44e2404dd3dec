// Activations as the pieces other operations are made of: the value, and the gradient with the value again beside it.
#pragma once
#include <ATen/core/Tensor.h>

#include "hyperion/kernels/activations_math.h"

namespace hyperion::kernels {

// gated_silu takes [..., 2 w], a gate and what it gates, to [..., w]: silu(gate) * up (Shazeer, 2020).
// bias: [w], of elementwise kinds, added to the input in the same pass; may be undefined.
at::Tensor activate(const at::Tensor& input, Activation kind, const at::Tensor& bias = {});

struct ActivationGradients {
  at::Tensor input;
  at::Tensor again;      // the activated value, where it was asked for
  at::Tensor sums = {};  // of the input's gradient over its rows, likewise: a bias's gradient
};
struct ActivationWants {
  bool value = false, sums = false;
  bool in_place = false;  // on a GPU the gradient takes the place of the input
};
ActivationGradients activation_gradients(const at::Tensor& input, const at::Tensor& upstream, Activation kind,
                                         ActivationWants wants = {}, const at::Tensor& bias = {});

// Differentiable; keeps the input (and the bias) alone.
at::Tensor activation(const at::Tensor& input, Activation kind, const at::Tensor& bias = {});
// The same in plain operations.
at::Tensor activation_reference(const at::Tensor& input, Activation kind, const at::Tensor& bias = {});

}  // namespace hyperion::kernels
