// What tests of the operations of blocks share: each is held against the same maths in fp64.
#pragma once
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rsqrt.h>

#include <functional>
#include <vector>

#include "tests/support/devices.h"

namespace hyperion::blocks {

using testing::relative_error;
using Tensors = std::vector<at::Tensor>;

// Every operation is held against the same maths in fp64, in value and in every gradient, in each type the device has.
class BlockOperation : public testing::OnDevice {
 protected:
  using Operation = std::function<Tensors(const Tensors&)>;

  static double tolerance(at::ScalarType type) {
    return type == at::kFloat ? 2e-6 : type == at::kBFloat16 ? 1.5e-2 : 2e-3;
  }
  at::Tensor random(at::IntArrayRef shape, double scale = 1) const { return at::randn(shape).mul(scale); }

  // inputs: fp32 on the CPU, rounded to `type` for both sides.
  void agrees(const Tensors& inputs, const Operation& fast, const Operation& plain, at::ScalarType type,
              double slack = 1) {
    Tensors mine, theirs;
    for (const auto& input : inputs) {
      const auto rounded = input.is_floating_point() ? input.to(type) : input;
      mine.push_back(rounded.to(GetParam()));
      theirs.push_back(rounded.is_floating_point() ? rounded.to(at::kDouble) : rounded);
      for (auto* list : {&mine, &theirs})
        if (input.is_floating_point()) list->back() = list->back().detach().requires_grad_();
    }
    const auto out = fast(mine), expected = plain(theirs);
    ASSERT_EQ(out.size(), expected.size());
    at::Tensor loss, wanted;
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_LT(relative_error(out[i].detach().cpu(), expected[i].detach()), slack * tolerance(type)) << "output " << i;
      const auto along = random(out[i].sizes());
      const auto part = out[i].to(at::kFloat).mul(along.to(GetParam())).sum();
      const auto wanted_part = expected[i].mul(along.to(at::kDouble)).sum();
      loss = i == 0 ? part : loss.add(part);
      wanted = i == 0 ? wanted_part : wanted.add(wanted_part);
    }
    loss.backward();
    wanted.backward();
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].is_floating_point()) continue;
      ASSERT_TRUE(mine[i].grad().defined()) << "gradient " << i;
      EXPECT_EQ(mine[i].grad().scalar_type(), type);
      EXPECT_LT(relative_error(mine[i].grad().cpu(), theirs[i].grad()), 2 * slack * tolerance(type))
          << "gradient " << i;
    }
  }

  // Sums of numbers about 0 are as exact as the numbers, not as the sums.
  static void are_sums(const at::Tensor& sums, const at::Tensor& of, double bound) {
    EXPECT_LT(sums.cpu().to(at::kDouble).sub(of.sum(0)).norm().item<double>(), bound * of.norm().item<double>());
  }

  template <class Body>
  void in_each_type(Body body) {
    for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      SCOPED_TRACE(c10::toString(type));
      body(type);
    }
  }
};

// [batch, length, width] and the linears' widths: whole vectors and odd ones.
struct Shape {
  int64_t batch, length, width, inner;
};
inline const std::vector<Shape> kShapes{{1, 1, 8, 16},     {2, 5, 24, 40},  {3, 7, 13, 5},   {2, 33, 768, 96},
                                        {1, 19, 1288, 24}, {2, 9, 2056, 8}, {1, 6, 4099, 3}, {2, 3, 5120, 8}};

inline at::Tensor plain_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (bias.defined()) return at::layer_norm(x, {x.size(-1)}, weight, bias, 1e-5);
  return x.mul(at::rsqrt(x.square().mean(-1, true).add(1e-5))).mul(weight);
}

}  // namespace hyperion::blocks
