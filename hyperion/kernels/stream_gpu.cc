#include <c10/cuda/CUDAStream.h>

#include "hyperion/kernels/gpu.h"

namespace hyperion::kernels {

void* current_gpu_stream(int device) {
  return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream();
}

}  // namespace hyperion::kernels
