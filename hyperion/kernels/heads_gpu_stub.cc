#include "hyperion/kernels/gpu.h"
#include "hyperion/kernels/heads_math.h"

namespace hyperion::kernels {

template <class T>
void rotate_heads_gpu(T*, int64_t, int64_t, int64_t, int64_t, const Rotation&, void*) {
  no_gpu_kernels();
}
template <class T>
int64_t pack_heads_gpu(const HeadGradient<T> (&)[3], T*, int64_t, int64_t, int64_t, const Rotation&, T*, float*,
                       void*) {
  no_gpu_kernels();
}
int64_t pack_heads_parts(int64_t) { return 1; }

#define HYPERION_HEADS(T)                                                                                          \
  template void rotate_heads_gpu(T*, int64_t, int64_t, int64_t, int64_t, const Rotation&, void*);                  \
  template int64_t pack_heads_gpu(const HeadGradient<T>(&)[3], T*, int64_t, int64_t, int64_t, const Rotation&, T*, \
                                  float*, void*);
HYPERION_HEADS(float)
HYPERION_HEADS(Bfloat16)
HYPERION_HEADS(Half)
#undef HYPERION_HEADS

}  // namespace hyperion::kernels
