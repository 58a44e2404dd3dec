#include "hyperion/base/error.h"
#include "hyperion/kernels/top_k_math.h"

namespace hyperion::kernels {
namespace {

[[noreturn]] void none() { throw base::Error("this build has no GPU kernels", "build the cuda preset"); }

}  // namespace

template <class T>
void top_k_gpu(const T*, const TopKShape&, int64_t*, float*, void*) {
  none();
}
template <class T>
void top_k_backward_gpu(const TopKBackward<T>&, const TopKShape&, void*) {
  none();
}

#define HYPERION_TOP_K(T)                                                       \
  template void top_k_gpu(const T*, const TopKShape&, int64_t*, float*, void*); \
  template void top_k_backward_gpu(const TopKBackward<T>&, const TopKShape&, void*);
HYPERION_TOP_K(float)
HYPERION_TOP_K(Bfloat16)
HYPERION_TOP_K(Half)
#undef HYPERION_TOP_K

}  // namespace hyperion::kernels
