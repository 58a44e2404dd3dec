#include "hyperion/kernels/batch_norm.h"

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hyperion/kernels/batch_norm_math.h"
#include "hyperion/kernels/maps.h"
#include "hyperion/kernels/typed.h"

namespace hyperion::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

struct BatchNorm : torch::autograd::Function<BatchNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& bias, const std::optional<at::Tensor>& residual,
                            const at::Tensor& running_mean, const at::Tensor& running_var, double momentum,
                            double epsilon, bool relu) {
    const int64_t channels = input.size(1), rows = input.numel() / channels;
    auto output = at::empty_like(input);
    const auto numbers = at::empty({4, channels}, weight.options());
    const auto partial = at::empty({batch_norm_parts(rows, channels), 2, channels}, weight.options());
    float* room = pointer<float>(numbers);
    const auto added = residual ? residual->contiguous(kChannelsLast) : at::Tensor();
    with_type(input.scalar_type(), [&]<class T>(T) {
      batch_norm_forward_gpu(
          BatchNormForward<T>{pointer<T>(input), pointer<T>(added), pointer<T>(output), pointer<float>(weight),
                              pointer<float>(bias), pointer<float>(running_mean), pointer<float>(running_var), room,
                              room + channels, room + 2 * channels, room + 3 * channels, pointer<float>(partial), rows,
                              channels, static_cast<float>(momentum), static_cast<float>(epsilon), true, relu},
          stream_of(input));
    });
    context->save_for_backward({input, relu ? output : at::Tensor(), weight, numbers});
    context->saved_data["residual"] = residual.has_value();
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto kept = context->get_saved_variables();
    const auto &input = kept[0], &output = kept[1], &weight = kept[2], &numbers = kept[3];
    const int64_t channels = input.size(1), rows = input.numel() / channels;
    const auto above = upstream[0].contiguous(kChannelsLast);
    const bool residual = context->saved_data.at("residual").toBool(), relu = output.defined();
    auto of_input = at::empty_like(input), of_weight = at::empty_like(weight), of_bias = at::empty_like(weight);
    // Without an activation the residual's gradient is what came from above.
    const auto of_residual = residual && relu ? at::empty_like(input) : at::Tensor();
    const auto partial = at::empty({batch_norm_parts(rows, channels), 2, channels}, weight.options());
    with_type(input.scalar_type(), [&]<class T>(T) {
      batch_norm_backward_gpu(
          BatchNormBackward<T>{pointer<T>(input), pointer<T>(output), pointer<T>(above), pointer<T>(of_input),
                               pointer<T>(of_residual), pointer<float>(weight), pointer<float>(numbers),
                               pointer<float>(numbers) + channels, pointer<float>(of_weight), pointer<float>(of_bias),
                               pointer<float>(partial), rows, channels, relu},
          stream_of(input));
    });
    return {of_input, of_weight, of_bias, residual ? (relu ? of_residual : above) : at::Tensor(), {}, {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor batch_norm_training(const at::Tensor& input, const BatchNormState& state, const at::Tensor& residual,
                               bool relu) {
  const bool ours = input.is_cuda() && input.size(1) % 8 == 0 && input.numel() > 0 &&
                    input.is_contiguous(kChannelsLast) &&
                    (!residual.defined() || residual.scalar_type() == input.scalar_type());
  if (ours)
    return BatchNorm::apply(input, state.weight, state.bias, maybe(residual), state.running_mean, state.running_var,
                            state.momentum, state.epsilon, relu);
  auto output = at::batch_norm(input, state.weight, state.bias, state.running_mean, state.running_var,
                               /*training=*/true, state.momentum, state.epsilon, /*cudnn_enabled=*/true);
  if (residual.defined()) output = output.add_(residual);
  return relu ? output.relu_() : output;
}

}  // namespace hyperion::kernels
