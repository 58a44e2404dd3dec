#include "hyperion/base/error.h"
#include "hyperion/kernels/embedding_math.h"

namespace hyperion::kernels {
namespace {

[[noreturn]] void none() { throw base::Error("this build has no GPU kernels", "build the cuda preset"); }

}  // namespace

template <class T>
void embedding_gpu(const EmbeddingRows<T>&, void*) {
  none();
}
template <class T>
void embedding_gradient_gpu(const EmbeddingGradient<T>&, void*) {
  none();
}
template <class T>
void places_gradient_gpu(const PlacesGradient<T>&, void*) {
  none();
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
