#include "hyperion/kernels/dropout_math.h"
#include "hyperion/kernels/gpu.h"

namespace hyperion::kernels {

template <class T>
void dropout_gpu(const DropoutTensors<T>&, const DropoutNumbers&, void*) {
  no_gpu_kernels();
}

template void dropout_gpu(const DropoutTensors<float>&, const DropoutNumbers&, void*);
template void dropout_gpu(const DropoutTensors<Bfloat16>&, const DropoutNumbers&, void*);
template void dropout_gpu(const DropoutTensors<Half>&, const DropoutNumbers&, void*);

}  // namespace hyperion::kernels
