#include "hyperion/nn/module.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "hyperion/nn/layers.h"

namespace hyperion::nn {
namespace {

struct Leaf final : Module {
  Leaf() { register_module("linear", std::make_shared<LinearInOut>(6, 8, Init::normal(0.2))); }
  at::Tensor forward(const at::Tensor& input, Pass&) override { return input; }
};
struct Root final : Module {
  Root() {
    auto middle = register_module("middle", std::make_shared<Leaf>());
    middle->register_module("inner", std::make_shared<Leaf>());
  }
  at::Tensor forward(const at::Tensor& input, Pass&) override { return input; }
};

TEST(Module, tells_any_piece_of_what_initialise_makes_of_a_parameter_deep_in_its_tree) {
  Root root;
  root.initialise(7);
  const auto parameters = root.list_parameters();
  ASSERT_EQ(parameters.size(), 4u);
  for (const auto& parameter : parameters) {
    const auto whole = parameter.tensor.detach().view(-1);
    for (const int64_t begin : {int64_t{0}, whole.numel() / 3}) {
      const auto piece = at::empty({whole.numel() - begin}, at::kFloat);
      root.initial_values(7, parameter.name, begin, piece);
      EXPECT_TRUE(piece.equal(whole.narrow(0, begin, piece.numel()))) << parameter.name << " from " << begin;
    }
  }
}

}  // namespace
}  // namespace hyperion::nn
