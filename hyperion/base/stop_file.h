// A file that asks a run to stop, for who can write to its folder but send it no signal: `touch runs/NAME/stop`.
#pragma once
#include "hyperion/base/files.h"

namespace hyperion::base {

constexpr const char* kStopFile = "stop";  // in the run's folder

// Where it is there, removes it, and asks this process to stop as SIGUSR1 does.
void heed_stop_file(FileSystem& files, const Path& run);

}  // namespace hyperion::base
