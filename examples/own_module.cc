// A torch::nn::Module of one's own, trained by the same step as everything else: it learns to tell whether two numbers
// have the same sign.
#include <torch/nn/modules/linear.h>

#include <cstdlib>

#include "hyperion/models/adapt.h"
#include "hyperion/train/fit.h"

using namespace hyperion;

struct Net : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(2, 32));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(32, 2));
  at::Tensor forward(const at::Tensor& x) { return out(at::tanh(in(x))); }
};

int main() {
  auto net = std::make_shared<Net>();
  auto model = models::adapt(net, [net](const at::Tensor& x) { return net->forward(x); });
  train::RunConfig config;
  config.train.steps = 400, config.train.batch = 128, config.optim.lr = 1e-2;
  const double loss = train::fit(*model, config, [](int64_t) {
    const auto x = at::randn({128, 2});
    return train::Batch{x, x.prod(1).gt(0).to(at::kLong)};
  });
  std::quick_exit(loss < 0.2 ? 0 : 1);  // LibTorch's static destructors are not safe beside CUDA's
}
