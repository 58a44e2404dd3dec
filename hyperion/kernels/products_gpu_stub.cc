#include "hyperion/kernels/gpu.h"
#include "hyperion/kernels/products_gpu.h"

namespace hyperion::kernels {

bool product_gpu(const RawProduct&, bool, void*) { no_gpu_kernels(); }

}  // namespace hyperion::kernels
