#include "hyperion/kernels/part_sums.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>

#include "hyperion/base/error.h"
#include "hyperion/kernels/bias_sums.h"
#include "hyperion/kernels/norm.h"
#include "tests/support/devices.h"

namespace hyperion::kernels {
namespace {

using testing::relative_error;

class PartedSumsOf : public testing::OnDevice {
 protected:
  PartedSums parted(int64_t parts, int64_t sections, int64_t width, at::ScalarType type) {
    const auto options = at::TensorOptions().device(GetParam());
    PartedSums out{at::randn({parts + 2, sections, width}, options), parts, {}};  // room for more than there are
    for (int64_t i = 0; i < sections; ++i) out.sums.push_back(at::empty({width}, options.dtype(type)));
    return out;
  }
  // Each another.
  std::vector<at::Tensor> leaves(size_t count) {
    std::vector<at::Tensor> list;
    for (size_t i = 0; i < count; ++i) list.push_back(kept_.emplace_back(at::ones({1})));
    return list;
  }
  std::vector<at::Tensor> kept_;
  static void expect_sums(const PartedSums& of, const std::vector<at::Tensor>& sums) {
    const auto expected = of.partial.narrow(0, 0, of.parts).to(at::kDouble).sum(0);
    for (size_t i = 0; i < sums.size(); ++i)
      EXPECT_LT(relative_error(sums[i], expected[static_cast<int64_t>(i)]),
                sums[i].scalar_type() == at::kFloat ? 1e-5 : 1e-2);
  }
};

TEST_P(PartedSumsOf, any_shape_and_type_are_added_up_at_once) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const int64_t parts : {1, 2, 31, 33, 257, 300})
      for (const int64_t width : {1, 31, 33, 515}) {
        const auto all = parted(parts, 1 + width % 3, width, type);
        add_up(all);
        expect_sums(all, all.sums);
      }
}

// More than one launch takes, of several types, and of other sizes than each other.
TEST_P(PartedSumsOf, many_are_added_up_together_at_the_end) {
  std::vector<PartedSums> all;
  for (int64_t i = 0; i < 150; ++i)
    all.push_back(parted(1 + i % 37, 1 + i % 3, 1 + i * 7 % 200, i % 5 == 0 ? at::kFloat : at::kBFloat16));
  SumsAtEnd end;
  for (const auto& each : all) {
    for (const auto& sum : each.sums) at::Tensor(sum).fill_(-1e4);
    add_up_for_leaves(each, leaves(each.sums.size()));
  }
  EXPECT_EQ(all[0].sums[0][0].item<float>(), -1e4);
  end.add_up();
  for (const auto& each : all) expect_sums(each, each.sums);
}

TEST_P(PartedSumsOf, many_bytes_do_not_wait) {
  const auto large = parted(400, 3, 1024, at::kFloat);  // 5 MB
  SumsAtEnd end;
  add_up_for_leaves(large, leaves(3));
  expect_sums(large, large.sums);
  std::vector<PartedSums> some;  // 40 MB
  for (int i = 0; i < 40; ++i) add_up_for_leaves(some.emplace_back(parted(250, 1, 1024, at::kFloat)), leaves(1));
  expect_sums(some[0], some[0].sums);
  end.add_up();
  expect_sums(some[39], some[39].sums);
}

TEST_P(PartedSumsOf, a_gradient_that_was_read_too_early_is_an_error) {
  SumsAtEnd end;
  {
    const auto taken = parted(3, 2, 5, at::kFloat);
    add_up_for_leaves(taken, leaves(1));
  }
  EXPECT_THROW(end.add_up(), base::Error);
}

TEST_P(PartedSumsOf, what_was_read_too_early_is_an_error_also_when_all_is_added_up_on_the_way) {
  SumsAtEnd end;
  add_up_for_leaves(parted(3, 2, 5, at::kFloat), leaves(1));
  std::vector<PartedSums> some;
  EXPECT_THROW(
      {
        for (int i = 0; i < 40; ++i) add_up_for_leaves(some.emplace_back(parted(250, 1, 1024, at::kFloat)), leaves(1));
      },
      base::Error);
}

TEST_P(PartedSumsOf, of_a_leaf_met_again_do_not_wait) {
  SumsAtEnd end;
  const auto shared = leaves(1);
  const auto first = parted(3, 1, 5, at::kFloat), second = parted(4, 1, 5, at::kFloat);
  add_up_for_leaves(first, shared);
  add_up_for_leaves(second, shared);
  expect_sums(first, first.sums);
  expect_sums(second, second.sums);
}

TEST_P(PartedSumsOf, sums_that_a_bias_took_must_be_kept_too) {
  for (const bool held : {true, false}) {
    SumsAtEnd end;
    at::Tensor gradient = at::ones({3, 5}, GetParam()), taken;
    {
      const auto both = parted(3, 2, 5, at::kFloat);
      add_up_for_leaves(both, leaves(0));
      leave_bias_sums(gradient, both.sums[1]);
      taken = take_bias_sums(gradient).narrow(0, 1, 2);  // one of several biases
    }
    if (held) {
      EXPECT_NO_THROW(end.add_up());
    } else {
      taken.reset();
      EXPECT_THROW(end.add_up(), base::Error);
    }
  }
}

TEST_P(PartedSumsOf, what_need_not_be_kept_may_be_dropped_and_a_pass_that_failed_leaves_nothing) {
  {
    SumsAtEnd end;
    add_up_for_leaves(parted(3, 2, 5, at::kFloat), leaves(0));
    end.add_up();
    add_up_for_leaves(parted(3, 2, 5, at::kFloat), leaves(1));
  }
  SumsAtEnd next;
  next.add_up();
}

// Through autograd, to the bit: the leaf's gradient is the one that is filled later, or both of a weight of two uses.
TEST_P(PartedSumsOf, norms_weights_get_the_same_gradients) {
  const auto options = at::TensorOptions().device(GetParam()).dtype(at::kBFloat16);
  const auto x = at::randn({77, 136}, options), upstream = at::randn({77, 136}, options);
  const auto gradients = [&](bool at_end, int uses) {
    auto weight = at::ones_like(upstream[0]).requires_grad_(), bias = at::zeros_like(weight).requires_grad_();
    auto y = x.detach().clone().requires_grad_();
    for (int i = 0; i < uses; ++i) y = norm(y, {weight, bias, 1e-5});
    if (!at_end) {
      y.backward(upstream);
    } else {
      SumsAtEnd end;
      y.backward(upstream);
      end.add_up();
    }
    return std::pair(weight.grad(), bias.grad());
  };
  const auto now = gradients(false, 1), later = gradients(true, 1);
  EXPECT_TRUE(now.first.equal(later.first));
  EXPECT_TRUE(now.second.equal(later.second));
  const auto twice = gradients(false, 2), twice_later = gradients(true, 2);
  EXPECT_TRUE(twice.first.equal(twice_later.first));
  EXPECT_TRUE(twice.second.equal(twice_later.second));
}

INSTANTIATE_TEST_SUITE_P(Devices, PartedSumsOf, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion::kernels
