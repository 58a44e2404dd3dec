#include "hyperion/kernels/gpu.h"
#include "hyperion/kernels/small_writes_math.h"

namespace hyperion::kernels {

void small_writes_gpu(const SmallWriteList&, void*) { no_gpu_kernels(); }

}  // namespace hyperion::kernels
