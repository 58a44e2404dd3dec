// A tensor by its name: what a model lists, ZeRO cuts, an optimizer updates and a checkpoint keeps, from one end to the
// other the same thing.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>

#include "hyperion/strategy/placement.h"

namespace hyperion::nn {

// How a parameter is treated.
struct Traits {
  bool decay = false;  // weight decay applies: matrices, not norms, biases or tables
  bool wide = false;   // stays fp32 whatever the model's type
};

struct Parameter {
  std::string name;   // Hugging Face's, or from the root of the tree
  at::Tensor tensor;  // of a model a leaf, frozen where it requires no gradient
  Traits traits = {};
  at::Tensor master = {};              // fp32 values that it was narrowed from; undefined: not known, or not kept
  strategy::Placement placement = {};  // which part of it the tensor is
  int64_t summed = 1;  // neighbours in tensor parallelism that hold the same, each with a part of its gradient's sum
};

}  // namespace hyperion::nn
