#include "hyperion/bench/device.h"

namespace hyperion::bench {

std::unique_ptr<TimedDevice> gpu_device(std::string& why) {
  why = "this build has no CUDA";
  return nullptr;
}

}  // namespace hyperion::bench
