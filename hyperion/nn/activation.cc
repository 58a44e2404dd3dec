#include "hyperion/nn/activation.h"

#include "hyperion/kernels/gelu.h"

namespace hyperion::nn {

at::Tensor gelu(const at::Tensor& input, const Pass& pass) {
  return pass.reference ? kernels::gelu_reference(input) : kernels::gelu(input);
}

}  // namespace hyperion::nn
