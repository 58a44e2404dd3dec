// Any torch::nn::Module as a model: its own parameters and buffers, and a call. What it lacks beside our own (a config,
// a shape, children that can be wrapped one by one) is said so.
#pragma once
#include <functional>
#include <memory>

#include "hyperion/models/model.h"

namespace torch::nn {
class Module;
}

namespace hyperion::models {

// The whole module is one unit. `forward` is what the step calls; it gets whatever inputs the batches hold. Matrices
// decay, vectors do not; buffers keep their type. `initialise` leaves the parameters as the module made them.
std::unique_ptr<Model> adapt(std::shared_ptr<torch::nn::Module> module,
                             std::function<at::Tensor(const at::Tensor& input)> forward);

}  // namespace hyperion::models
