#include "hyperion/blocks/rope.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/outer.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hyperion/blocks/rope_math.h"
#include "hyperion/kernels/typed.h"

namespace hyperion::blocks {

using kernels::on_gpu;
using kernels::pointer;
using kernels::stream_of;
using kernels::with_type;

namespace {

std::pair<at::Tensor, at::Tensor> tables(const at::Tensor& half, at::ScalarType type, double scale) {
  const auto angles = at::cat({half, half}, -1);
  const auto scaled = [&](const at::Tensor& table) { return (scale == 1 ? table : table.mul(scale)).to(type); };
  return {scaled(angles.cos()), scaled(angles.sin())};
}

HeadStrides strides_of(const at::Tensor& tensor) { return {tensor.stride(0), tensor.stride(1), tensor.stride(2)}; }

at::Tensor rotated(const at::Tensor& given, const at::Tensor& cosines, const at::Tensor& sines, bool back) {
  const auto input = given.stride(3) == 1 ? given : given.contiguous();
  const int64_t batch = input.size(0), heads = input.size(1), length = input.size(2), width = input.size(3);
  // Heads of a token lie together, or positions of a head: as they came.
  auto output = input.stride(1) < input.stride(2)
                    ? at::empty({batch, length, heads, width}, input.options()).transpose(1, 2)
                    : at::empty({batch, heads, length, width}, input.options());
  with_type(input.scalar_type(), [&]<class T>(T) {
    on_gpu([&] {
      rope_gpu(Rope<T>{pointer<T>(input), pointer<T>(cosines), pointer<T>(sines), pointer<T>(output), batch, heads,
                       length, width, cosines.numel() == length * width ? 0 : length * width, strides_of(input),
                       strides_of(output), back},
               stream_of(input));
    });
  });
  return output;
}

struct Rotated : torch::autograd::Function<Rotated> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& cosines, const at::Tensor& sines) {
    context->save_for_backward({cosines, sines});
    return rotated(input, cosines, sines, false);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    return {rotated(upstream[0], saved[0], saved[1], true), at::Tensor(), at::Tensor()};
  }
};

// Whether the kernel can read the table: [length, width], with or without sides of 1 before it, or the batch's.
bool fits(const at::Tensor& table, const at::Tensor& input) {
  const int64_t of_one = input.size(2) * input.size(3);
  const bool each = table.dim() == 4 && table.size(0) == input.size(0) && table.size(1) == 1;
  return table.is_cuda() && table.scalar_type() == input.scalar_type() && !table.requires_grad() &&
         table.is_contiguous() && table.size(-1) == input.size(3) && table.size(-2) == input.size(2) &&
         (table.numel() == of_one || (each && table.numel() == input.size(0) * of_one));
}

}  // namespace

std::pair<at::Tensor, at::Tensor> rope_tables(const at::Tensor& frequencies, int64_t first, int64_t length,
                                              at::ScalarType type, double scale) {
  const auto positions = at::arange(first, first + length, frequencies.options());
  return tables(at::outer(positions, frequencies), type, scale);
}

std::pair<at::Tensor, at::Tensor> rope_tables(const at::Tensor& frequencies, const at::Tensor& positions,
                                              at::ScalarType type, double scale) {
  return tables(positions.to(at::kFloat).unsqueeze(1).unsqueeze(-1).mul(frequencies), type, scale);
}

at::Tensor rope(const at::Tensor& input, const at::Tensor& cosines, const at::Tensor& sines) {
  const bool ours = input.is_cuda() && input.scalar_type() != at::kDouble && input.dim() == 4 && input.numel() > 0 &&
                    cosines.sizes() == sines.sizes() && fits(cosines, input) && fits(sines, input);
  return ours ? Rotated::apply(input, cosines, sines) : rope_reference(input, cosines, sines);
}

at::Tensor rope_reference(const at::Tensor& input, const at::Tensor& cosines, const at::Tensor& sines) {
  const int64_t half = input.size(-1) / 2;
  const auto rotated = at::cat({input.narrow(-1, half, half).neg(), input.narrow(-1, 0, half)}, -1);
  return input * cosines + rotated * sines;
}

}  // namespace hyperion::blocks
