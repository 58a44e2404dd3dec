// What the pieces of a rank waited for, as far as a trace tells: a kernel for another stream, the host for the device,
// a thread for another. Where nothing says so, it is told from what ended just before.
#pragma once
#include "hyperion/analysis/timeline.h"

namespace hyperion::analysis {

// Fills in Piece::after and Piece::until. Time n log n of the pieces.
void find_waits(Timeline& timeline);

}  // namespace hyperion::analysis
