#include "hyperion/base/error.h"
#include "hyperion/kernels/gpu.h"

namespace hyperion::kernels {

void* current_gpu_stream(int) { return nullptr; }

void no_gpu_kernels() { throw base::Error("this build has no GPU kernels", "build the cuda preset"); }

}  // namespace hyperion::kernels
