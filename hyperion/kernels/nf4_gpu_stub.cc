#include "hyperion/kernels/gpu.h"
#include "hyperion/kernels/nf4_math.h"

namespace hyperion::kernels {

template <class T>
void nf4_pack_gpu(const T*, const Nf4Scales&, uint8_t*, int64_t, void*) {
  no_gpu_kernels();
}

template <class T>
void nf4_unpack_gpu(const uint8_t*, const Nf4Scales&, T*, int64_t, void*) {
  no_gpu_kernels();
}

template void nf4_pack_gpu(const float*, const Nf4Scales&, uint8_t*, int64_t, void*);
template void nf4_pack_gpu(const Bfloat16*, const Nf4Scales&, uint8_t*, int64_t, void*);
template void nf4_unpack_gpu(const uint8_t*, const Nf4Scales&, float*, int64_t, void*);
template void nf4_unpack_gpu(const uint8_t*, const Nf4Scales&, Bfloat16*, int64_t, void*);

}  // namespace hyperion::kernels
