// The loop: from a fresh start or the newest good checkpoint to the last step, leaving metrics, checkpoints and a
// report.
#pragma once
#include "hyperion/base/files.h"
#include "hyperion/train/train_request.h"

namespace hyperion::train {

// Throws Interrupted after a checkpoint when a signal asked to stop. Prints the step lines, and at the end what was
// reached.
void train(base::FileSystem& files, const TrainRequest& request);

}  // namespace hyperion::train
