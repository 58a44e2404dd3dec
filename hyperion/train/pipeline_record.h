// The schedule of a pipeline's stages as a run's processes carried it out: pipeline.svg.
#pragma once
#include <string>

#include "hyperion/base/files.h"

namespace hyperion::parallel {
class Processes;
}

namespace hyperion::train {

class Stepper;

// Every process calls it. The first writes the picture of the last step that was timed, as planned and as it ran, and
// returns what it shows: "step 8: bubble 18.3% as it ran, 20.0% planned". Empty on the others, and where nothing was
// timed. Of several pipelines the first process's is shown.
std::string draw_pipeline(base::FileSystem& files, const base::Path& picture, parallel::Processes& processes,
                          const Stepper& stepper);

}  // namespace hyperion::train
