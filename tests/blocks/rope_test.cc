#include "hyperion/blocks/rope.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include "tests/support/devices.h"

namespace hyperion::blocks {
namespace {

using testing::relative_error;

class Rope : public testing::OnDevice {};

struct RopeCase {
  int64_t batch, heads, length, width;
  bool each_row, tokens_first;  // tables of each row of the batch; heads of a token beside each other in memory
};

// Against the plain form in fp64 with the same tables, in value and gradient, and in every layout that layers use.
TEST_P(Rope, agrees_with_its_reference_in_value_and_gradient) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto& c : std::vector<RopeCase>{{1, 1, 1, 2, false, false},
                                               {2, 3, 5, 6, false, true},
                                               {2, 5, 33, 64, true, true},
                                               {1, 7, 129, 128, false, false},
                                               {3, 2, 17, 80, true, false},
                                               {8, 13, 700, 64, false, true}}) {
      SCOPED_TRACE(::testing::Message() << c10::toString(type) << " " << c.heads << " x " << c.length << " x "
                                        << c.width);
      const auto frequencies = rope_frequencies(c.width, {}).to(GetParam());
      const auto [cosines, sines] =
          c.each_row ? rope_tables(frequencies, at::randint(1000, {c.batch, c.length}, at::kLong).to(GetParam()), type)
                     : rope_tables(frequencies, 11, c.length, type);
      const auto shaped = [&](const at::Tensor& t) { return c.tokens_first ? t.transpose(1, 2) : t; };
      const auto shape = c.tokens_first ? std::vector<int64_t>{c.batch, c.length, c.heads, c.width}
                                        : std::vector<int64_t>{c.batch, c.heads, c.length, c.width};
      const auto x = at::randn(shape).to(type), along = at::randn(shape).to(type);
      const auto x1 = x.clone().to(GetParam()).requires_grad_(), x2 = x.to(at::kDouble).requires_grad_();
      const auto wide = [](const at::Tensor& t) { return t.cpu().to(at::kDouble); };
      const auto y1 = rope(shaped(x1), cosines, sines), y2 = rope_reference(shaped(x2), wide(cosines), wide(sines));
      y1.backward(shaped(along.to(GetParam())));
      y2.backward(shaped(wide(along)));
      const double bound = type == at::kFloat ? 1e-6 : type == at::kHalf ? 2e-3 : 1e-2;
      EXPECT_EQ(y1.scalar_type(), type);
      EXPECT_LT(relative_error(y1.detach().cpu(), y2.detach()), bound);
      EXPECT_LT(relative_error(x1.grad().cpu(), x2.grad()), bound);
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, Rope, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion::blocks
