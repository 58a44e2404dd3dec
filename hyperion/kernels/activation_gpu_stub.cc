#include "hyperion/kernels/activation_math.h"
#include "hyperion/kernels/gpu.h"

namespace hyperion::kernels {

int64_t activation_sum_parts(int64_t, int64_t) { return 1; }
template <class T>
void activation_forward_gpu(Activation, const ActivationForward<T>&, void*) {
  no_gpu_kernels();
}
template <class T>
int64_t activation_backward_gpu(Activation, const ActivationBackward<T>&, void*) {
  no_gpu_kernels();
}

#define HYPERION_ACTIVATION(T)                                                          \
  template void activation_forward_gpu(Activation, const ActivationForward<T>&, void*); \
  template int64_t activation_backward_gpu(Activation, const ActivationBackward<T>&, void*);
HYPERION_ACTIVATION(float)
HYPERION_ACTIVATION(Bfloat16)
HYPERION_ACTIVATION(Half)
#undef HYPERION_ACTIVATION

}  // namespace hyperion::kernels
