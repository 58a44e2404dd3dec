#include "hyperion/kernels/embedding_math.h"
#include "hyperion/kernels/gpu.h"

namespace hyperion::kernels {

template <class T>
void embedding_gpu(const EmbeddingRows<T>&, void*) {
  no_gpu_kernels();
}
template <class T>
void embedding_gradient_gpu(const EmbeddingGradient<T>&, void*) {
  no_gpu_kernels();
}
template <class T>
void places_gradient_gpu(const PlacesGradient<T>&, void*) {
  no_gpu_kernels();
}

#define HYPERION_EMBEDDING(T)                                               \
  template void embedding_gpu(const EmbeddingRows<T>&, void*);              \
  template void embedding_gradient_gpu(const EmbeddingGradient<T>&, void*); \
  template void places_gradient_gpu(const PlacesGradient<T>&, void*);
HYPERION_EMBEDDING(float)
HYPERION_EMBEDDING(Bfloat16)
HYPERION_EMBEDDING(Half)
#undef HYPERION_EMBEDDING

}  // namespace hyperion::kernels
