#include "hyperion/kernels/gpu.h"
#include "hyperion/kernels/update_math.h"

namespace hyperion::kernels {

template <class Weight, class Gradient>
void adamw_all_gpu(const UpdateTable&, const UpdateNumbers<AdamWNumbers>&, void*) {
  no_gpu_kernels();
}
template <class Weight, class Gradient>
void sgd_all_gpu(const UpdateTable&, const UpdateNumbers<SgdNumbers>&, void*) {
  no_gpu_kernels();
}
template <class Gradient>
void squares_all_gpu(const UpdateTable&, float*, void*) {
  no_gpu_kernels();
}
void clip_factor_gpu(const float*, int64_t, const ClipNumbers&, float*, float*, void*) { no_gpu_kernels(); }

#define HYPERION_UPDATE(W, G)                                                                       \
  template void adamw_all_gpu<W, G>(const UpdateTable&, const UpdateNumbers<AdamWNumbers>&, void*); \
  template void sgd_all_gpu<W, G>(const UpdateTable&, const UpdateNumbers<SgdNumbers>&, void*);
HYPERION_UPDATE(float, float)
HYPERION_UPDATE(Bfloat16, Bfloat16)
HYPERION_UPDATE(Bfloat16, float)
HYPERION_UPDATE(Half, Half)
HYPERION_UPDATE(Half, float)
#undef HYPERION_UPDATE
template void squares_all_gpu<float>(const UpdateTable&, float*, void*);
template void squares_all_gpu<Bfloat16>(const UpdateTable&, float*, void*);
template void squares_all_gpu<Half>(const UpdateTable&, float*, void*);

}  // namespace hyperion::kernels
