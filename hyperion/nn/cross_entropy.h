// The loss of logits, and of hidden states under an output map without ever holding all logits.
#pragma once
#include "hyperion/blocks/block_ops.h"
#include "hyperion/kernels/cross_entropy.h"

namespace hyperion::nn {

using blocks::linear_cross_entropy;
using kernels::cross_entropy;

}  // namespace hyperion::nn
