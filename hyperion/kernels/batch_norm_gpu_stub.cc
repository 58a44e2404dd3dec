#include "hyperion/kernels/batch_norm_math.h"
#include "hyperion/kernels/gpu.h"

namespace hyperion::kernels {

int64_t batch_norm_parts(int64_t, int64_t) { return 1; }
int64_t batch_norm_mask_bytes(int64_t, int64_t) { return 1; }
template <class T>
void batch_norm_forward_gpu(const BatchNormForward<T>&, void*) {
  no_gpu_kernels();
}
template <class T>
void batch_norm_backward_gpu(const BatchNormBackward<T>&, void*) {
  no_gpu_kernels();
}

#define HYPERION_BATCH_NORM(T)                                             \
  template void batch_norm_forward_gpu(const BatchNormForward<T>&, void*); \
  template void batch_norm_backward_gpu(const BatchNormBackward<T>&, void*);
HYPERION_BATCH_NORM(float)
HYPERION_BATCH_NORM(Bfloat16)
HYPERION_BATCH_NORM(Half)
#undef HYPERION_BATCH_NORM

}  // namespace hyperion::kernels
