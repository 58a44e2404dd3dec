// Activation checkpointing without a second backward inside the first: a region's saved tensors are dropped in the
// forward and made again from its inputs when the backward first asks for one (Chen et al., 2016). The graph is the one
// it would be without, so values, gradients and hooks are the same to the bit.
#pragma once
#include <functional>
#include <vector>

#include "hyperion/nn/pass.h"

namespace hyperion::nn {

using RegionFunction = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

// now(inputs); `again` must do the same operations in the same order on tensors of the same values. It runs in whatever
// thread the backward runs in, stops as soon as all that is still needed is there, and each tensor goes once used.
// Where it throws, the backward does, and may be tried again. The inputs are saved by the policies around the region.
// Throws base::Error in the backward where `again` did something else.
at::Tensor recompute_region(const std::vector<at::Tensor>& inputs, const RegionFunction& now, RegionFunction again);

// A region for the operations between products (norms, activations, dropout). Inside a block of a selective pass the
// output, too, is dropped where a later operation of the block saves it; elsewhere now(inputs) and no more.
at::Tensor cheap_region(const std::vector<at::Tensor>& inputs, const RegionFunction& now, RegionFunction again);

// The same for a function that holds all it needs by value.
template <class F>
at::Tensor cheap(const PassSettings& pass, const std::vector<at::Tensor>& inputs, F f) {
  return pass.recompute == Recompute::selective ? cheap_region(inputs, f, f) : f(inputs);
}

}  // namespace hyperion::nn
