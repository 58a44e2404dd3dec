#include "hyperion/base/error.h"
#include "hyperion/kernels/cross_entropy_math.h"

namespace hyperion::kernels {

template <class T>
void cross_entropy_gpu(const CrossEntropyRows<T>&, void*) {
  throw base::Error("this build has no GPU kernels", "build the cuda preset");
}

template void cross_entropy_gpu(const CrossEntropyRows<float>&, void*);
template void cross_entropy_gpu(const CrossEntropyRows<Bfloat16>&, void*);
template void cross_entropy_gpu(const CrossEntropyRows<Half>&, void*);

}  // namespace hyperion::kernels
