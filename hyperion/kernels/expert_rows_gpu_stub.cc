#include "hyperion/kernels/expert_rows_math.h"
#include "hyperion/kernels/gpu.h"

namespace hyperion::kernels {

void sort_by_expert_gpu(const ExpertSort&, void*) { no_gpu_kernels(); }
template <class T>
void spread_rows_gpu(const SpreadRows<T>&, void*) {
  no_gpu_kernels();
}
template <class T>
void collect_rows_gpu(const CollectRows<T>&, void*) {
  no_gpu_kernels();
}

#define HYPERION_ROWS(T)                                      \
  template void spread_rows_gpu(const SpreadRows<T>&, void*); \
  template void collect_rows_gpu(const CollectRows<T>&, void*);
HYPERION_ROWS(float)
HYPERION_ROWS(Bfloat16)
HYPERION_ROWS(Half)
#undef HYPERION_ROWS

}  // namespace hyperion::kernels
