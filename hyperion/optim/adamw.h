// AdamW (Loshchilov and Hutter, 2019) over one tensor in one pass: fp32 master, moments, and the compute-type weight
// written back in the same pass.
#pragma once
#include <ATen/core/Tensor.h>

namespace hyperion::optim {

struct AdamWStep {
  float lr, beta1, beta2, epsilon, decay;
  float correction1, correction2;  // 1 - beta^t
};

// master, first, second: fp32, dense, laid out alike, changed in place; second is undefined for SGD. weight: the master
// itself, or its bf16 or fp16 copy. gradient: fp32 or of the weight's type.
struct UpdateTensors {
  at::Tensor master, first, second, weight, gradient;
  float decay = 0;
};

// Of the tensors, `master`, `first`, `second`: fp32, contiguous, updated in place. `gradient`: fp32, or of the weight's
// type, contiguous, is multiplied by `scale` (one fp32 number on the same device; the clip factor). `weight`: bf16 or
// fp16 copy to refresh, or the master itself. The decay is the step's.
void adamw(const UpdateTensors& tensors, const at::Tensor& scale, const AdamWStep& step);

// The same in plain tensor operations, for tests and benches.
void adamw_reference(const UpdateTensors& tensors, const at::Tensor& scale, const AdamWStep& step);

}  // namespace hyperion::optim
