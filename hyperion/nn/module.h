// The module base: torch::nn::Module's names, parameters and devices, one forward signature, and `run` as the only way
// from a parent to a child, so that whatever wraps a unit (sharding, recomputation, offload, pipeline cuts) has one
// place to stand.
#pragma once
#include <torch/nn/module.h>

#include <map>
#include <string>

#include "hyperion/nn/pass.h"

namespace hyperion::nn {

// How a parameter starts: normal with a deviation, or a constant.
struct Init {
  float deviation = 0, constant = 0;
  static Init normal(double deviation) { return {static_cast<float>(deviation), 0}; }
  static Init filled(double value) { return {0, static_cast<float>(value)}; }
};

class Module : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& input, Pass& pass) = 0;

  // Sets every parameter of the tree from the seed and its full name alone.
  void initialise(uint64_t seed, const std::string& prefix = {});

 protected:
  at::Tensor run(Module& child, const at::Tensor& input, Pass& pass) { return child.forward(input, pass); }
  at::Tensor parameter(const std::string& name, at::IntArrayRef shape, Init init);

 private:
  std::map<std::string, Init> inits_;
};

}  // namespace hyperion::nn
