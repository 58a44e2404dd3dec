#include "hyperion/base/error.h"
#include "hyperion/kernels/batch_norm_math.h"

namespace hyperion::kernels {

int64_t batch_norm_parts(int64_t, int64_t) { return 1; }
int64_t batch_norm_mask_bytes(int64_t, int64_t) { return 1; }
template <class T>
void batch_norm_forward_gpu(const BatchNormForward<T>&, void*) {
  throw base::Error("this build has no GPU kernels", "build the cuda preset");
}
template <class T>
void batch_norm_backward_gpu(const BatchNormBackward<T>&, void*) {
  throw base::Error("this build has no GPU kernels", "build the cuda preset");
}

#define HYPERION_BATCH_NORM(T)                                             \
  template void batch_norm_forward_gpu(const BatchNormForward<T>&, void*); \
  template void batch_norm_backward_gpu(const BatchNormBackward<T>&, void*);
HYPERION_BATCH_NORM(float)
HYPERION_BATCH_NORM(Bfloat16)
HYPERION_BATCH_NORM(Half)
#undef HYPERION_BATCH_NORM

}  // namespace hyperion::kernels
