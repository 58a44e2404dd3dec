#include "hyperion/kernels/nf4.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "hyperion/kernels/nf4_math.h"
#include "tests/support/devices.h"

namespace hyperion {
namespace {

using kernels::Nf4;
using kernels::nf4_dequantize;
using kernels::nf4_matmul;
using kernels::nf4_quantize;
using testing::OnDevice;
using testing::relative_error;

// What the format says, in plain loops and doubles: quantized and dequantized again.
std::vector<float> round_trip(const std::vector<float>& in) {
  const int64_t count = static_cast<int64_t>(in.size()), blocks = (count + 63) / 64;
  std::vector<double> largest(blocks, 0);
  double mean = 0;
  for (int64_t i = 0; i < count; ++i) largest[i / 64] = std::max(largest[i / 64], std::abs(double{in[i]}));
  for (const double value : largest) mean += value / static_cast<double>(blocks);
  std::vector<float> out(in.size());
  for (int64_t block = 0; block < blocks; ++block) {
    double scale = 0;
    const int64_t group = block / 256 * 256;
    for (int64_t i = group; i < std::min(blocks, group + 256); ++i)
      scale = std::max(scale, std::abs(largest[i] - mean));
    const double part = scale > 0 ? (largest[block] - mean) / scale : 0;
    const double byte = std::round(std::sqrt(std::abs(part)) * 127);
    const double magnitude = std::max(0.0, mean + std::copysign(byte * byte / 127 / 127, part) * scale);
    for (int64_t i = block * 64; i < std::min(count, block * 64 + 64); ++i) {
      double nearest = 0;  // a block of zeros stays one
      for (int code = 0; magnitude > 0 && code < 16; ++code) {
        const double value = kernels::nf4_value(code) * magnitude;
        if (code == 0 || std::abs(value - in[i]) < std::abs(nearest - in[i])) nearest = value;
      }
      out[i] = static_cast<float>(nearest);
    }
  }
  return out;
}

std::vector<float> values_of(const at::Tensor& tensor) {
  const auto flat = tensor.to(at::kCPU, at::kFloat).contiguous();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

class Nf4Weight : public OnDevice {
 protected:
  at::Tensor random(at::IntArrayRef shape) { return at::randn(shape).to(GetParam()); }
};

TEST_P(Nf4Weight, comes_back_as_a_plain_loop_says) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1}, {7, 3}, {64}, {65, 5}, {300, 257}}) {
    const auto weight = random(shape);
    const auto got = values_of(nf4_dequantize(nf4_quantize(weight), at::kFloat)), want = round_trip(values_of(weight));
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-4 * (1 + std::abs(want[i]))) << i;
  }
}

TEST_P(Nf4Weight, loses_a_tenth_and_takes_4_13_bits) {
  const auto weight = random({1024, 512}).mul(0.02);
  const Nf4 packed = nf4_quantize(weight);
  EXPECT_LT(relative_error(nf4_dequantize(packed, at::kFloat), weight), 0.1);
  EXPECT_GT(relative_error(nf4_dequantize(packed, at::kFloat), weight), 0.05);
  EXPECT_NEAR(8.0 * static_cast<double>(packed.bytes()) / static_cast<double>(weight.numel()), 4.13, 0.005);
}

TEST_P(Nf4Weight, keeps_the_others_where_one_weight_is_huge) {
  auto weight = random({512, 64}).mul(0.02);
  const auto before = nf4_dequantize(nf4_quantize(weight), at::kFloat);
  weight[3][5] = 20;
  const auto after = nf4_dequantize(nf4_quantize(weight), at::kFloat);
  EXPECT_NEAR(after[3][5].item<float>(), 20, 0.01);
  EXPECT_LT(relative_error(after.narrow(0, 100, 400), weight.narrow(0, 100, 400)), 0.13);
}

TEST_P(Nf4Weight, keeps_zeros_and_the_ends_of_equal_blocks) {
  EXPECT_TRUE(nf4_dequantize(nf4_quantize(at::zeros({200}).to(GetParam())), at::kFloat).eq(0).all().item<bool>());
  auto mixed = at::zeros({128}).to(GetParam());
  mixed.narrow(0, 64, 64).fill_(-0.5);
  EXPECT_LT(relative_error(nf4_dequantize(nf4_quantize(mixed), at::kFloat), mixed), 1e-6);
}

TEST_P(Nf4Weight, is_the_same_in_bf16_but_for_rounding) {
  const auto weight = random({130, 33}).to(at::kBFloat16);
  const Nf4 packed = nf4_quantize(weight), wide = nf4_quantize(weight.to(at::kFloat));
  EXPECT_TRUE(packed.codes.equal(wide.codes));
  const auto narrow = nf4_dequantize(packed, at::kBFloat16);
  EXPECT_EQ(narrow.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(narrow.equal(nf4_dequantize(wide, at::kFloat).to(at::kBFloat16)));
  EXPECT_TRUE(nf4_dequantize(packed, at::kHalf).equal(nf4_dequantize(wide, at::kFloat).to(at::kHalf)));
}

TEST_P(Nf4Weight, multiplies_and_gives_the_input_its_gradient) {
  for (const bool transposed : {true, false}) {
    const Nf4 packed = nf4_quantize(transposed ? random({37, 21}) : random({21, 37}));
    const auto whole = nf4_dequantize(packed, at::kFloat);
    auto x = random({2, 5, 21}).requires_grad_(), y = x.detach().clone().requires_grad_();
    const auto out = nf4_matmul(x, packed, transposed);
    const auto expected = transposed ? at::linear(y, whole) : at::matmul(y, whole);
    const auto upstream = random({2, 5, 37});
    out.backward(upstream);
    expected.backward(upstream);
    EXPECT_LT(relative_error(out.detach(), expected.detach()), 1e-6);
    EXPECT_LT(relative_error(x.grad(), y.grad()), 1e-6);
  }
}

TEST_P(Nf4Weight, goes_into_a_part_of_wider_rows) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{6, 64}, {5, 24}, {7, 13}})
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const auto packed = nf4_quantize(at::randn({rows, columns}).to(GetParam()));
      const auto wide = at::full({rows, columns + 16}, 7.0, at::TensorOptions(GetParam()).dtype(type));
      kernels::nf4_dequantize_into(wide.narrow(1, 0, columns), packed);
      EXPECT_TRUE(wide.narrow(1, 0, columns).equal(nf4_dequantize(packed, type))) << columns;
      EXPECT_TRUE(wide.narrow(1, columns, 16).eq(7).all().item<bool>()) << columns;
    }
}

TEST_P(Nf4Weight, is_packed_alike_on_every_device) {
  const auto weight = at::randn({67, 45});
  const Nf4 here = nf4_quantize(weight), there = kernels::move(nf4_quantize(weight.to(GetParam())), at::kCPU);
  EXPECT_TRUE(here.codes.equal(there.codes));
  EXPECT_TRUE(here.magnitudes.equal(there.magnitudes));
}

INSTANTIATE_TEST_SUITE_P(Devices, Nf4Weight, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion
