#include "hyperion/kernels/device.h"

namespace hyperion::kernels {

std::string device_text(c10::Device) { return "CPU"; }

}  // namespace hyperion::kernels
