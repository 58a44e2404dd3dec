#include "hyperion/base/error.h"
#include "hyperion/kernels/dropout_math.h"

namespace hyperion::kernels {

template <class T>
void dropout_gpu(const T*, T*, int64_t, const DropoutNumbers&, void*) {
  throw base::Error("this build has no GPU kernels", "build the cuda preset");
}

template void dropout_gpu(const float*, float*, int64_t, const DropoutNumbers&, void*);
template void dropout_gpu(const Bfloat16*, Bfloat16*, int64_t, const DropoutNumbers&, void*);
template void dropout_gpu(const Half*, Half*, int64_t, const DropoutNumbers&, void*);

}  // namespace hyperion::kernels
