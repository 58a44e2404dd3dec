#include "hyperion/kernels/gpu.h"
#include "hyperion/kernels/top_k_math.h"

namespace hyperion::kernels {

template <class T>
void top_k_gpu(const T*, const TopKShape&, int64_t*, float*, void*) {
  no_gpu_kernels();
}
template <class T>
void top_k_backward_gpu(const TopKBackward<T>&, const TopKShape&, void*) {
  no_gpu_kernels();
}

#define HYPERION_TOP_K(T)                                                       \
  template void top_k_gpu(const T*, const TopKShape&, int64_t*, float*, void*); \
  template void top_k_backward_gpu(const TopKBackward<T>&, const TopKShape&, void*);
HYPERION_TOP_K(float)
HYPERION_TOP_K(Bfloat16)
HYPERION_TOP_K(Half)
#undef HYPERION_TOP_K

}  // namespace hyperion::kernels
