// The module base: torch::nn::Module's names, parameters and devices, one forward signature, and `run` as the way from
// a parent to a unit, so that whatever wraps units (recomputation, the gathering of weights) has one place to stand.
// Where a step has a fused form, the step picks it (nn/pre_norm.h), never the model.
#pragma once
#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hyperion/nn/parameter.h"
#include "hyperion/nn/pass.h"

namespace hyperion::nn {

// How a parameter starts: normal with a deviation, uniform to either side of 0, or a constant.
struct Init {
  float deviation = 0, constant = 0, bound = 0;
  static Init normal(double deviation) { return {static_cast<float>(deviation), 0, 0}; }
  static Init uniform(double bound) { return {0, 0, static_cast<float>(bound)}; }
  static Init filled(double value) { return {0, static_cast<float>(value), 0}; }
};

// What a module is to whatever wraps units: a block is recomputed whole, a cheap one costs less to recompute than its
// output takes to keep.
enum class Unit { plain, block, cheap };

class Module;
at::Tensor run_unit(Module& child, Unit unit, const at::Tensor& input, Pass& pass);  // as the pass says of such units

class Module : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& input, Pass& pass) = 0;
  virtual Unit unit() const { return Unit::plain; }

  // Sets every parameter of the tree that has memory from the seed and its full name alone.
  void initialise(uint64_t seed, const std::string& prefix = {});
  // What `initialise` makes of elements [begin, begin + out.numel()) of one parameter; `out` is fp32 on the CPU.
  void initial_values(uint64_t seed, const std::string& name, int64_t begin, const at::Tensor& out) const;

  // Every parameter of the tree, a module's own before its children's.
  std::vector<Parameter> list_parameters(const std::string& prefix = {}) const;

  // This module, then its children, each with its path from the root.
  void visit(const std::function<void(const std::string& path, Module& module)>& each, const std::string& path = {});

  // From the root of the tree that was moved last; for messages and profiles.
  const std::string& path() const { return path_; }

  // Moves the tree; parameters that are not wide take the type, buffers keep theirs.
  void move_to(at::Device device, at::ScalarType type);
  void lay_out_tree();  // where the parameters of all modules lie in memory, if they are on a GPU

 protected:
  at::Tensor parameter(const std::string& name, at::IntArrayRef shape, Init init, Traits traits = {});
  void forget_parameter(const std::string& name);
  virtual void move_held(at::Device) {}  // tensors that are neither parameters nor buffers
  virtual void lay_out() {}              // of its own parameters, once they are on a GPU

 private:
  struct Entry {
    Init init;
    Traits traits;
  };
  std::map<std::string, Entry> entries_;
  std::string path_;
};

inline at::Tensor run(Module& child, const at::Tensor& input, Pass& pass) {
  const Unit unit = child.unit();
  return unit == Unit::plain ? child.forward(input, pass) : run_unit(child, unit, input, pass);
}

// A name of the tree with modules under it that do not run as one: whoever registers them runs them.
class Branch final : public Module {
 public:
  at::Tensor forward(const at::Tensor& input, Pass& pass) override;  // never
};

// Modules that run one after another, named 0, 1, 2 and so on: the blocks of a network, each a Unit::block.
class Stack final : public Module {
 public:
  Stack(int64_t count, const std::function<std::shared_ptr<Module>(int64_t)>& make);
  at::Tensor forward(const at::Tensor& input, Pass& pass) override;
  const std::vector<std::shared_ptr<Module>>& blocks() const { return blocks_; }

 private:
  std::vector<std::shared_ptr<Module>> blocks_;
};

}  // namespace hyperion::nn
