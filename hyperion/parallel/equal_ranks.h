// Whether what should be the same on all ranks is.
#pragma once
#include <vector>

#include "hyperion/comm/group.h"
#include "hyperion/nn/parameter.h"

namespace hyperion::parallel {

// Compares hashes of the tensors' bytes. All ranks throw base::Error where they differ: which ranks are not as rank 0,
// and the first tensor in which.
void check_equal(comm::Group& group, const std::vector<nn::Parameter>& tensors);

}  // namespace hyperion::parallel
