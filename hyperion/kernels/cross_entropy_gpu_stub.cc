#include "hyperion/kernels/cross_entropy_math.h"
#include "hyperion/kernels/gpu.h"

namespace hyperion::kernels {

template <class T>
void cross_entropy_gpu(const CrossEntropyRows<T>&, void*) {
  no_gpu_kernels();
}
template <class T>
void cross_entropy_backward_gpu(const CrossEntropyBackward<T>&, void*) {
  no_gpu_kernels();
}
void mean_loss_gpu(const float*, const int64_t*, int64_t, int64_t, float*, float*, void*) { no_gpu_kernels(); }
template <class From, class T>
void scale_gpu(const From*, T*, int64_t, const float*, const float*, void*) {
  no_gpu_kernels();
}

#define HYPERION_CROSS_ENTROPY(T)                                                  \
  template void cross_entropy_gpu(const CrossEntropyRows<T>&, void*);              \
  template void cross_entropy_backward_gpu(const CrossEntropyBackward<T>&, void*); \
  template void scale_gpu(const T*, T*, int64_t, const float*, const float*, void*);
HYPERION_CROSS_ENTROPY(float)
HYPERION_CROSS_ENTROPY(Bfloat16)
HYPERION_CROSS_ENTROPY(Half)
#undef HYPERION_CROSS_ENTROPY
template void scale_gpu(const float*, Bfloat16*, int64_t, const float*, const float*, void*);
template void scale_gpu(const float*, Half*, int64_t, const float*, const float*, void*);

}  // namespace hyperion::kernels
