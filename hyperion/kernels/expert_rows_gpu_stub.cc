#include "hyperion/base/error.h"
#include "hyperion/kernels/expert_rows_math.h"

namespace hyperion::kernels {
namespace {

[[noreturn]] void none() { throw base::Error("this build has no GPU kernels", "build the cuda preset"); }

}  // namespace

void sort_by_expert_gpu(const ExpertSort&, void*) { none(); }
template <class T>
void spread_rows_gpu(const SpreadRows<T>&, void*) {
  none();
}
template <class T>
void collect_rows_gpu(const CollectRows<T>&, void*) {
  none();
}

#define HYPERION_ROWS(T)                                      \
  template void spread_rows_gpu(const SpreadRows<T>&, void*); \
  template void collect_rows_gpu(const CollectRows<T>&, void*);
HYPERION_ROWS(float)
HYPERION_ROWS(Bfloat16)
HYPERION_ROWS(Half)
#undef HYPERION_ROWS

}  // namespace hyperion::kernels
