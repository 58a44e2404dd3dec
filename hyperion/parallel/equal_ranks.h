// Whether what should be the same on all ranks is.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "hyperion/comm/group.h"

namespace hyperion::parallel {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Compares hashes of the tensors' bytes. All ranks throw base::Error where they differ: which ranks are not as rank 0,
// and the first tensor in which.
void check_equal(comm::Group& group, const NamedTensors& tensors);

}  // namespace hyperion::parallel
