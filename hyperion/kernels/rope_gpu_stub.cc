#include "hyperion/base/error.h"
#include "hyperion/kernels/rope_math.h"

namespace hyperion::kernels {

template <class T>
void rope_gpu(const Rope<T>&, void*) {
  throw base::Error("this build has no GPU kernels", "build the cuda preset");
}

template void rope_gpu(const Rope<float>&, void*);
template void rope_gpu(const Rope<Bfloat16>&, void*);
template void rope_gpu(const Rope<Half>&, void*);

}  // namespace hyperion::kernels
