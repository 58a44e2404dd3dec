#include "hyperion/nn/activation.h"

#include <ATen/ops/silu.h>

#include "hyperion/kernels/gelu.h"
#include "hyperion/nn/recompute.h"

namespace hyperion::nn {

at::Tensor gelu(const at::Tensor& input, const PassSettings& pass) {
  return cheap(pass, {input}, [reference = pass.reference](const auto& in) {
    return reference ? kernels::gelu_reference(in[0]) : kernels::gelu(in[0]);
  });
}

at::Tensor gated_silu(const at::Tensor& gate, const at::Tensor& up, const PassSettings& pass) {
  return cheap(pass, {gate, up}, [](const auto& in) { return at::silu(in[0]).mul(in[1]); });
}

at::Tensor gelu_erf(const at::Tensor& input, const PassSettings& pass) {
  return pass.reference ? kernels::gelu_erf_reference(input) : kernels::gelu_erf(input);
}

}  // namespace hyperion::nn
