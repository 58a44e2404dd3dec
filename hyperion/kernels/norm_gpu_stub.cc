#include "hyperion/base/error.h"
#include "hyperion/kernels/norm_math.h"

namespace hyperion::kernels {

int64_t norm_backward_parts(int64_t) { return 1; }
template <class T>
void norm_forward_gpu(const NormForward<T>&, void*) {
  throw base::Error("this build has no GPU kernels", "build the cuda preset");
}
template <class T>
int64_t norm_backward_gpu(const NormBackward<T>&, void*) {
  throw base::Error("this build has no GPU kernels", "build the cuda preset");
}

#define HYPERION_NORM(T)                                        \
  template void norm_forward_gpu(const NormForward<T>&, void*); \
  template int64_t norm_backward_gpu(const NormBackward<T>&, void*);
HYPERION_NORM(float)
HYPERION_NORM(Bfloat16)
HYPERION_NORM(Half)
#undef HYPERION_NORM

}  // namespace hyperion::kernels
