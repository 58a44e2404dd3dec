// The graphics processors of this machine, from the vendor's own library, loaded while running: the program needs no
// driver to be built or to start.
#pragma once
#include "hyperion/host/gpu_facts.h"

namespace hyperion::host {

GpuSurvey survey_gpus();

}  // namespace hyperion::host
