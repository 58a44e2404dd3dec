#include "hyperion/base/error.h"
#include "hyperion/kernels/dropout_math.h"

namespace hyperion::kernels {

template <class T>
void dropout_gpu(const DropoutTensors<T>&, const DropoutNumbers&, void*) {
  throw base::Error("this build has no GPU kernels", "build the cuda preset");
}

template void dropout_gpu(const DropoutTensors<float>&, const DropoutNumbers&, void*);
template void dropout_gpu(const DropoutTensors<Bfloat16>&, const DropoutNumbers&, void*);
template void dropout_gpu(const DropoutTensors<Half>&, const DropoutNumbers&, void*);

}  // namespace hyperion::kernels
