// Fills a stepper from the checkpoint that a resume goes on from, or from the one before it where that is damaged.
#pragma once
#include "hyperion/train/run_folder.h"
#include "hyperion/train/run_state.h"

namespace hyperion::train {

// Returns the start that was taken; every process calls it, `first` in one. Whether a checkpoint is good is known once
// all of them have read their parts. The one before a bad one takes its place, unless it was written under other
// settings: what this resume was found to change is then to be found anew, so the bad one is put aside, and
// CorruptError says to resume again. None good: CorruptError that tells what is wrong with each.
StartPoint load_start(base::FileSystem& files, const RunFolder& run, StartPoint start, Stepper& stepper, bool first);

}  // namespace hyperion::train
