#include "hyperion/base/error.h"
#include "hyperion/kernels/products_gpu.h"

namespace hyperion::kernels {

bool product_gpu(const RawProduct&, bool, void*) {
  throw base::Error("this build has no GPU kernels", "build the cuda preset");
}

}  // namespace hyperion::kernels
