#include "hyperion/kernels/gpu.h"
#include "hyperion/kernels/part_sums_math.h"

namespace hyperion::kernels {

template <class T>
void add_parts_gpu(const PartSums<T>*, int, void*) {
  no_gpu_kernels();
}

template void add_parts_gpu(const PartSums<float>*, int, void*);
template void add_parts_gpu(const PartSums<Bfloat16>*, int, void*);
template void add_parts_gpu(const PartSums<Half>*, int, void*);

}  // namespace hyperion::kernels
