#include "hyperion/comm/versions.h"

namespace hyperion::comm {

std::vector<LibraryVersion> gpu_library_versions() { return {}; }
bool built_for_gpu() { return false; }
GpuUse try_gpus() { return {}; }

}  // namespace hyperion::comm
