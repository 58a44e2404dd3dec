#include "hyperion/base/error.h"
#include "hyperion/kernels/adamw_math.h"

namespace hyperion::kernels {

template <class Weight, class Gradient>
void adamw_gpu(const AdamWArrays<Weight, Gradient>&, int64_t, const AdamWNumbers&, void*) {
  throw base::Error("this build has no GPU kernels", "build the cuda preset");
}

template void adamw_gpu(const AdamWArrays<float, float>&, int64_t, const AdamWNumbers&, void*);
template void adamw_gpu(const AdamWArrays<Bfloat16, Bfloat16>&, int64_t, const AdamWNumbers&, void*);
template void adamw_gpu(const AdamWArrays<Bfloat16, float>&, int64_t, const AdamWNumbers&, void*);
template void adamw_gpu(const AdamWArrays<Half, Half>&, int64_t, const AdamWNumbers&, void*);
template void adamw_gpu(const AdamWArrays<Half, float>&, int64_t, const AdamWNumbers&, void*);

}  // namespace hyperion::kernels
