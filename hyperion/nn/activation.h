// Activations, fused or plain as the pass says.
#pragma once
#include "hyperion/nn/pass.h"

namespace hyperion::nn {

at::Tensor gelu(const at::Tensor& input, const Pass& pass);  // tanh form

}  // namespace hyperion::nn
