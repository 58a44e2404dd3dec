#include "hyperion/kernels/nf4.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/device/gpu.h"
#include "hyperion/kernels/nf4_math.h"

namespace hyperion::kernels {
namespace {

int64_t elements_of(const Nf4& weight) {
  return std::accumulate(weight.shape.begin(), weight.shape.end(), int64_t{1}, std::multiplies<>());
}

Nf4Scales scales_of(const Nf4& weight) {
  return {weight.magnitudes.const_data_ptr<int8_t>(), weight.group_scales.const_data_ptr<float>(),
          weight.mean_magnitude, std::countr_zero(static_cast<uint64_t>(weight.group))};
}

at::Tensor in_rows(const at::Tensor& flat, int64_t width) {
  return at::constant_pad_nd(flat, {0, (width - flat.size(0) % width) % width}).view({-1, width});
}

// The largest magnitude of each block, then these as signed squares within their group.
void quantize_magnitudes(const at::Tensor& flat, Nf4& out) {
  const auto largest = in_rows(flat, kNf4Block).abs().amax(1).to(at::kFloat);
  out.mean_magnitude = largest.mean().item<float>();
  const auto rest = in_rows(largest.sub(out.mean_magnitude), out.group);
  out.group_scales = rest.abs().amax(1);
  const auto parts = rest.div(out.group_scales.unsqueeze(1).clamp_min(1e-38));
  const auto bytes = parts.abs().sqrt().mul(parts.sign()).mul(127).round().to(at::kChar);
  out.magnitudes = bytes.view({-1}).narrow(0, 0, largest.size(0)).clone();
}

std::vector<int64_t> blocks_of(const Nf4& whole, const std::vector<Nf4Stretch>& stretches) {
  std::vector<int64_t> blocks;
  for (const auto& [first, count] : stretches) {
    HYPERION_CHECK(first >= 0 && count >= 0 && first + count <= elements_of(whole), "a part lies inside of the whole");
    for (int64_t block = first / kNf4Block; block < (first + count) / kNf4Block; ++block) blocks.push_back(block);
  }
  return blocks;
}

at::Tensor picked(const at::Tensor& from, const std::vector<int64_t>& rows) {
  return from.index_select(0, at::tensor(rows, at::kLong).to(from.device()));
}

template <class T>
void pack_as(const at::Tensor& flat, const Nf4& weight) {
  const auto* in = static_cast<const T*>(flat.const_data_ptr());
  auto* codes = weight.codes.mutable_data_ptr<uint8_t>();
  if (flat.is_cuda()) {
    device::on_gpu([&] {
      nf4_pack_gpu(in, scales_of(weight), codes, flat.numel(), device::current_gpu_stream(flat.get_device()));
    });
  } else {
    nf4_pack_cpu(in, scales_of(weight), codes, flat.numel());
  }
}

template <class T>
void unpack_as(const Nf4& weight, const at::Tensor& out) {
  const auto* codes = weight.codes.const_data_ptr<uint8_t>();
  auto* to = static_cast<T*>(out.mutable_data_ptr());
  if (out.is_cuda()) {
    device::on_gpu([&] {
      const int64_t width = out.dim() == 2 ? out.size(1) : out.numel();
      nf4_unpack_gpu(codes, scales_of(weight),
                     Nf4Rows<T>{to, out.numel(), width, out.dim() == 2 ? out.stride(0) : width},
                     device::current_gpu_stream(out.get_device()));
    });
  } else {
    nf4_unpack_cpu(codes, scales_of(weight), to, out.numel());
  }
}

// The packed tensors travel as plain data, not as saved activations: they are the weight itself.
struct Matmul : torch::autograd::Function<Matmul> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input, const Nf4& weight,
                            bool transposed) {
    auto& saved = context->saved_data;
    saved["shape"] = weight.shape;
    saved["codes"] = weight.codes;
    saved["magnitudes"] = weight.magnitudes;
    saved["group_scales"] = weight.group_scales;
    saved["mean_magnitude"] = static_cast<double>(weight.mean_magnitude);
    saved["group"] = weight.group;
    saved["transposed"] = transposed;
    const auto whole = nf4_dequantize(weight, input.scalar_type());
    return transposed ? at::linear(input, whole) : at::matmul(input, whole);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto& saved = context->saved_data;
    const Nf4 weight{saved.at("shape").toIntVector(),
                     gradients[0].scalar_type(),
                     saved.at("codes").toTensor(),
                     saved.at("magnitudes").toTensor(),
                     saved.at("group_scales").toTensor(),
                     static_cast<float>(saved.at("mean_magnitude").toDouble()),
                     saved.at("group").toInt()};
    const auto whole = nf4_dequantize(weight, gradients[0].scalar_type());
    return {at::matmul(gradients[0], saved.at("transposed").toBool() ? whole : whole.t()), {}, {}};
  }
};

}  // namespace

int64_t Nf4::bytes() const {
  return static_cast<int64_t>(codes.nbytes() + magnitudes.nbytes() + group_scales.nbytes() + sizeof mean_magnitude);
}

Nf4 nf4_quantize(const at::Tensor& weight) {
  HYPERION_CHECK(weight.numel() > 0, "an empty weight has no 4-bit form");
  const auto type = weight.scalar_type();
  const auto flat = weight.detach().contiguous().view({-1});
  Nf4 out;
  out.shape = weight.sizes().vec();
  out.type = type;
  quantize_magnitudes(flat, out);
  out.codes = at::empty({(flat.numel() + 1) / 2}, flat.options().dtype(at::kByte));
  if (type == at::kBFloat16) {
    pack_as<Bfloat16>(flat, out);
  } else {
    pack_as<float>(flat.to(at::kFloat), out);
  }
  return out;
}

void nf4_dequantize_into(const at::Tensor& out, const Nf4& weight) {
  HYPERION_CHECK(out.numel() == elements_of(weight), "4-bit weights go into as many elements");
  // As the GPU's kernel writes: eight elements at a time.
  const bool apart = out.is_cuda() && out.dim() == 2 && out.stride(1) == 1 && out.stride(0) >= out.size(1) &&
                     out.size(1) % 8 == 0 && out.stride(0) % 8 == 0;
  const bool aligned = reinterpret_cast<uintptr_t>(out.const_data_ptr()) % 16 == 0 && (out.is_contiguous() || apart);
  if (aligned && out.scalar_type() == at::kBFloat16) return unpack_as<Bfloat16>(weight, out);
  if (aligned && out.scalar_type() == at::kFloat) return unpack_as<float>(weight, out);
  out.copy_(nf4_dequantize(weight, out.scalar_type()));
}

at::Tensor nf4_dequantize(const Nf4& weight, at::ScalarType type) {
  const bool narrow = type == at::kBFloat16;
  const auto out = at::empty(weight.shape, weight.group_scales.options().dtype(narrow ? type : at::kFloat));
  narrow ? unpack_as<Bfloat16>(weight, out) : unpack_as<float>(weight, out);
  return out.to(type);
}

Nf4 move(const Nf4& weight, at::Device device) {
  Nf4 moved = weight;
  for (auto* tensor : {&moved.codes, &moved.magnitudes, &moved.group_scales}) *tensor = tensor->to(device);
  return moved;
}

bool nf4_parts_at(const std::vector<Nf4Stretch>& stretches) {
  return std::all_of(stretches.begin(), stretches.end(),
                     [](const auto& each) { return each.first % kNf4Block == 0 && each.count % kNf4Block == 0; });
}

Nf4 nf4_part(const Nf4& whole, const std::vector<Nf4Stretch>& stretches, std::vector<int64_t> shape) {
  if (!nf4_parts_at(stretches))
    throw base::ConfigError(base::format("a block of {} elements in 4 bits would straddle the cut", kNf4Block));
  const auto blocks = blocks_of(whole, stretches);
  const auto size = static_cast<int64_t>(blocks.size());
  Nf4 part;
  part.shape = std::move(shape);
  part.type = whole.type;
  part.mean_magnitude = whole.mean_magnitude;
  HYPERION_CHECK(elements_of(part) == size * kNf4Block, "a part has as many elements as its shape");
  // Where the whole's scale is not that of the block before, a group of the part must begin.
  for (int64_t i = 1; i < size; ++i)
    if (blocks[i] / whole.group != blocks[i - 1] / whole.group)
      part.group = std::min(part.group, int64_t{1} << std::countr_zero(static_cast<uint64_t>(i)));
  std::vector<int64_t> groups;
  for (int64_t i = 0; i < size; i += part.group) groups.push_back(blocks[i] / whole.group);
  const int64_t full = elements_of(whole) / kNf4Block;  // a shorter block at the end is in no part
  part.codes = picked(whole.codes.narrow(0, 0, full * kNf4Block / 2).view({full, kNf4Block / 2}), blocks).view({-1});
  part.magnitudes = picked(whole.magnitudes, blocks);
  part.group_scales = picked(whole.group_scales, groups);
  return part;
}

at::Tensor nf4_matmul(const at::Tensor& input, const Nf4& weight, bool transposed) {
  return Matmul::apply(input, weight, transposed);
}

}  // namespace hyperion::kernels
