// One element of AdamW, shared by the CPU and GPU forms, and the CPU's raw entry point; a GPU's is in update_math.h.
#pragma once
#include <cmath>
#include <cstdint>

#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::optim {

// Layout equal to AdamWStep, without torch's headers.
struct AdamWNumbers {
  float lr, beta1, beta2, epsilon, decay, correction1, correction2;
};

template <class Weight, class Gradient>
struct AdamWArrays {
  float *master, *first, *second;
  Weight* weight;  // may be the master
  const Gradient* gradient;
  const float* scale;
};

#if defined(__CUDACC__) || defined(__HIPCC__)
__host__ __device__
#endif
    inline float
    adamw_element(float weight, float gradient, float& first, float& second, const AdamWNumbers& n) {
  first = n.beta1 * first + (1 - n.beta1) * gradient;
  second = n.beta2 * second + (1 - n.beta2) * gradient * gradient;
  const float denominator = std::sqrt(second / n.correction2) + n.epsilon;
  return weight * (1 - n.lr * n.decay) - n.lr * (first / n.correction1) / denominator;
}

template <class Weight, class Gradient>
void adamw_cpu(const AdamWArrays<Weight, Gradient>& arrays, int64_t count, const AdamWNumbers& numbers);

}  // namespace hyperion::optim
