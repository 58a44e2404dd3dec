#include "hyperion/kernels/device.h"

namespace hyperion::kernels {

std::string device_text(c10::Device) { return "CPU"; }
int gpu_capability(c10::Device) { return 0; }

}  // namespace hyperion::kernels
