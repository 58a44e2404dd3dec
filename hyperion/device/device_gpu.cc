#include "hyperion/base/format.h"
#include "hyperion/device/device.h"
#include "hyperion/device/gpu.h"
#include "hyperion/gpu/torch.h"

namespace hyperion::device {

std::string device_text(c10::Device device) {
  return device.is_cuda() ? at::cuda::getDeviceProperties(device.index())->name : "CPU";
}

int gpu_capability(c10::Device device) {
  if (!device.is_cuda()) return 0;
  const auto* properties = at::cuda::getDeviceProperties(device.index());
  return 10 * properties->major + properties->minor;
}

std::string pci_place(c10::Device device) {
  if (!device.is_cuda()) return {};
  const auto* properties = at::cuda::getDeviceProperties(device.index());
  return base::format("{:04x}:{:02x}:{:02x}.0", properties->pciDomainID, properties->pciBusID, properties->pciDeviceID);
}

void* current_gpu_stream(int device) {
  return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream();
}

}  // namespace hyperion::device
