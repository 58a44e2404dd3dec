// 4-bit weights: NF4 with double quantization (Dettmers et al., 2023). 64 elements share a largest magnitude; each is
// the nearest of 16 values spaced as a normal distribution's. The magnitudes, less their mean, are one signed byte
// each, of 256 sharing a fp32 scale; a byte counts as its square, so that one large weight does not blur the others.
// About 4.13 bits an element.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace hyperion::kernels {

struct Nf4 {
  std::vector<int64_t> shape;
  at::ScalarType type;      // of what was quantized
  at::Tensor codes;         // uint8 [elements / 2], the first of a pair in the low four bits
  at::Tensor magnitudes;    // int8 [blocks of 64]
  at::Tensor group_scales;  // fp32 [groups of `group` blocks]
  float mean_magnitude = 0;
  int64_t group = 256;  // blocks that share a scale: a power of two; fewer than 256 in parts of a weight alone
  int64_t bytes() const;
};

// Of fp32, bf16 or fp16, on its device.
Nf4 nf4_quantize(const at::Tensor& weight);
at::Tensor nf4_dequantize(const Nf4& weight, at::ScalarType type);
// out: of its shape, of any such type; its rows may be parts of wider ones.
void nf4_dequantize_into(const at::Tensor& out, const Nf4& weight);
Nf4 move(const Nf4& weight, at::Device device);

// The elements [first, first + count) of a flattened weight.
struct Nf4Stretch {
  int64_t first, count;
};
// Whether a weight may be cut there: no block of 64 lies on both sides.
bool nf4_parts_at(const std::vector<Nf4Stretch>& stretches);
// One stretch behind the other as a weight of `shape`, on its device, with the very values of the whole. Where a block
// would be cut through it throws ConfigError.
Nf4 nf4_part(const Nf4& whole, const std::vector<Nf4Stretch>& stretches, std::vector<int64_t> shape);

// input W, or input W^T where `transposed`, in the input's type. Differentiable in the input; what it keeps for the
// backward is the packed weight.
at::Tensor nf4_matmul(const at::Tensor& input, const Nf4& weight, bool transposed);

}  // namespace hyperion::kernels
