#include "hyperion/kernels/gpu.h"
#include "hyperion/kernels/rope_math.h"

namespace hyperion::kernels {

template <class T>
void rope_gpu(const Rope<T>&, void*) {
  no_gpu_kernels();
}

template void rope_gpu(const Rope<float>&, void*);
template void rope_gpu(const Rope<Bfloat16>&, void*);
template void rope_gpu(const Rope<Half>&, void*);

}  // namespace hyperion::kernels
