#include <ATen/cuda/CUDAContext.h>

#include "hyperion/kernels/device.h"

namespace hyperion::kernels {

std::string device_text(c10::Device device) {
  return device.is_cuda() ? at::cuda::getDeviceProperties(device.index())->name : "CPU";
}

int gpu_capability(c10::Device device) {
  if (!device.is_cuda()) return 0;
  const auto* properties = at::cuda::getDeviceProperties(device.index());
  return 10 * properties->major + properties->minor;
}

}  // namespace hyperion::kernels
