#include <ATen/cuda/CUDAContext.h>

#include "hyperion/kernels/device.h"

namespace hyperion::kernels {

std::string device_text(c10::Device device) {
  return device.is_cuda() ? at::cuda::getDeviceProperties(device.index())->name : "CPU";
}

}  // namespace hyperion::kernels
