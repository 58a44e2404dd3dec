#include "hyperion/base/error.h"
#include "hyperion/kernels/small_writes_math.h"

namespace hyperion::kernels {

void small_writes_gpu(const SmallWriteList&, void*) {
  throw base::Error("this build has no GPU kernels", "build the cuda preset");
}

}  // namespace hyperion::kernels
