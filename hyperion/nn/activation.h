// Activations, fused or plain as the pass says; recomputed in a selective pass.
#pragma once
#include "hyperion/nn/pass.h"

namespace hyperion::nn {

at::Tensor gelu(const at::Tensor& input, const PassSettings& pass);  // tanh form
at::Tensor gelu_erf(const at::Tensor& input, const PassSettings& pass);

// silu(gate) * up, the gate of Llama's feed-forward part (Shazeer, 2020).
at::Tensor gated_silu(const at::Tensor& gate, const at::Tensor& up, const PassSettings& pass);

}  // namespace hyperion::nn
