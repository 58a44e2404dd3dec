#include "hyperion/kernels/nf4.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <random>
#include <set>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/kernels/nf4_math.h"
#include "tests/support/devices.h"

namespace hyperion {
namespace {

using kernels::Nf4;
using kernels::nf4_dequantize;
using kernels::nf4_matmul;
using kernels::nf4_part;
using kernels::nf4_quantize;
using kernels::Nf4Stretch;
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

// One rank's share of a matrix that is cut along `dim`: of each of so many parts that lie beside one another (q|k|v).
struct Share {
  int64_t dim, parts, ranks, rank;

  int64_t begin(const Nf4& whole, int64_t part) const { return (part * ranks + rank) * length(whole); }
  int64_t length(const Nf4& whole) const { return whole.shape[dim] / parts / ranks; }

  Nf4 of(const Nf4& whole) const {
    const int64_t times = dim == 0 ? 1 : whole.shape[0], each = dim == 0 ? whole.shape[1] : 1;
    std::vector<Nf4Stretch> stretches;
    for (int64_t time = 0; time < times; ++time)
      for (int64_t part = 0; part < parts; ++part)
        stretches.push_back({(time * whole.shape[dim] + begin(whole, part)) * each, length(whole) * each});
    auto shape = whole.shape;
    shape[dim] = parts * length(whole);
    EXPECT_TRUE(kernels::nf4_parts_at(stretches));
    return nf4_part(whole, stretches, shape);
  }
  at::Tensor of_values(const Nf4& whole, at::ScalarType type) const {
    const auto values = nf4_dequantize(whole, type);
    std::vector<at::Tensor> pieces;
    for (int64_t part = 0; part < parts; ++part)
      pieces.push_back(values.narrow(dim, begin(whole, part), length(whole)));
    return at::cat(pieces, dim);
  }
};

// each(whole, share) for cuts by rows and columns, of one part and of three, of shapes that are odd in all but that.
template <class Each>
void for_shares(at::Device device, const Each& each) {
  std::mt19937 random(3);
  const auto odd = [&](int64_t most) { return 2 * std::uniform_int_distribution<int64_t>(0, most / 2)(random) + 1; };
  for (const int64_t ranks : {2, 3, 4})
    for (const int64_t parts : {1, 3})
      for (const int64_t dim : {0, 1}) {
        std::vector<int64_t> shape{odd(200), odd(200)};
        shape[dim] = ranks * parts * 64 * (odd(8) + 1) / 2;
        const Nf4 whole = nf4_quantize(at::randn(shape).to(device));
        for (int64_t rank = 0; rank < ranks; ++rank) each(whole, Share{dim, parts, ranks, rank});
      }
}

TEST_P(Nf4Weight, has_the_same_values_in_its_parts) {
  std::set<int64_t> groups;
  for_shares(GetParam(), [&](const Nf4& whole, const Share& share) {
    const Nf4 part = kernels::move(kernels::move(share.of(whole), at::kCPU), GetParam());
    groups.insert(part.group);
    for (const auto type : {at::kFloat, at::kBFloat16})
      EXPECT_TRUE(nf4_dequantize(part, type).equal(share.of_values(whole, type)))
          << whole.shape << " along " << share.dim << " by " << share.ranks << ", rank " << share.rank;
    const int64_t pieces = part.shape[share.dim] / 64;
    const Share last{share.dim, 1, pieces, pieces - 1};
    EXPECT_TRUE(nf4_dequantize(last.of(part), at::kFloat).equal(last.of_values(part, at::kFloat))) << "a part's part";
  });
  EXPECT_GE(groups.size(), 4U) << ::testing::PrintToString(groups);
}

TEST_P(Nf4Weight, multiplies_by_its_parts) {
  for_shares(GetParam(), [&](const Nf4& whole, const Share& share) {
    const Nf4 part = share.of(whole);
    const auto values = share.of_values(whole, at::kFloat);
    for (const bool transposed : {true, false}) {
      auto x = random({2, 3, part.shape[transposed ? 1 : 0]}).requires_grad_(), y = x.detach().clone().requires_grad_();
      const auto out = nf4_matmul(x, part, transposed);
      const auto expected = transposed ? at::linear(y, values) : at::matmul(y, values);
      const auto upstream = random(out.sizes());
      out.backward(upstream);
      expected.backward(upstream);
      EXPECT_TRUE(out.equal(expected)) << whole.shape << " along " << share.dim;
      EXPECT_TRUE(x.grad().equal(y.grad())) << whole.shape << " along " << share.dim;
    }
  });
}

// 8 rows of 96 blocks: the whole's scales change at its blocks 256 (the 65th of row 2) and 512 (the 33rd of row 5).
TEST_P(Nf4Weight, has_as_few_scales_in_a_part_as_may_be) {
  const Nf4 whole = nf4_quantize(random({8, 6144}));
  const auto scales_of = [&](const Share& share) {
    const Nf4 part = share.of(whole);
    return std::pair(part.group, part.group_scales.numel());
  };
  EXPECT_EQ(scales_of({0, 1, 1, 0}), std::pair(int64_t{256}, int64_t{3}));
  EXPECT_EQ(scales_of({0, 1, 2, 0}), std::pair(int64_t{256}, int64_t{2}));  // 384 blocks; another scale at 256
  EXPECT_EQ(scales_of({0, 1, 2, 1}), std::pair(int64_t{128}, int64_t{3}));  // at 512 - 384 = 128
  EXPECT_EQ(scales_of({0, 1, 8, 0}), std::pair(int64_t{256}, int64_t{1}));  // of one row, in one group
  EXPECT_EQ(scales_of({1, 1, 2, 0}), std::pair(int64_t{16}, int64_t{24}));  // at 3 x 48 and 5 x 48 + 32
  EXPECT_EQ(scales_of({1, 1, 96, 0}), std::pair(int64_t{1}, int64_t{8}));   // at 3 and 6
}

TEST_P(Nf4Weight, is_not_cut_through_a_block) {
  const Nf4 whole = nf4_quantize(random({6, 96}));
  for (const std::vector<Nf4Stretch>& stretches :
       {std::vector<Nf4Stretch>{{32, 64}}, {{0, 96}}, {{0, 64}, {96, 64}}, {{0, 32}, {64, 32}}}) {
    EXPECT_FALSE(kernels::nf4_parts_at(stretches));
    EXPECT_THROW(nf4_part(whole, stretches, {64}), base::ConfigError);
  }
  EXPECT_TRUE(kernels::nf4_parts_at({{0, 192}, {384, 192}}));
  EXPECT_THROW(nf4_part(whole, {{0, 192}}, {1, 96}), base::Error);  // another shape
  EXPECT_THROW(nf4_part(whole, {{512, 128}}, {128}), base::Error);  // past its end
}

INSTANTIATE_TEST_SUITE_P(Devices, Nf4Weight, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion
