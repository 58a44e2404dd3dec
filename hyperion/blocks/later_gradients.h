// Gradients of weights that a backward leaves for later: the stage before waits for those of the inputs alone (Qi et
// al., 2024). Linears leave theirs, where their pass says to whom; those of biases, norms, tables and of adapters that
// are fused with what they change are small, and made at once.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <vector>

namespace hyperion::blocks {

// What the backward of one stage left of one micro-batch.
class LaterGradients {
 public:
  using Make = std::function<std::vector<at::Tensor>()>;
  void leave(std::vector<at::Tensor> weights, Make make) { left_.push_back({std::move(weights), std::move(make)}); }
  // All that was left, to the weights: as a backward would bring it, hooks included.
  void make();

 private:
  struct Left {
    std::vector<at::Tensor> weights;
    Make make;
  };
  std::vector<Left> left_;
};

// Of a function of autograd: to whom its backward leaves the gradients of which weights; null: to nobody. Kept as they
// are: of what a recomputation saves autograd gives back tensors that lead to no weight.
void keep_later(torch::autograd::AutogradContext* context, LaterGradients* later, at::TensorList weights);
// In its backward: the gradients of these weights, or as many that are undefined, where they are left for later.
std::vector<at::Tensor> now_or_later(torch::autograd::AutogradContext* context, const LaterGradients::Make& make);

// input W + b with W [in, out], or input W^T + b with W [out, in]. A bias may be undefined.
at::Tensor plain_linear(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, bool in_out,
                        LaterGradients* later);

}  // namespace hyperion::blocks
