#include "hyperion/kernels/dropout.h"

#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hyperion/base/error.h"
#include "hyperion/kernels/dropout_math.h"
#include "hyperion/kernels/gpu.h"

namespace hyperion::kernels {
namespace {

template <class T>
void apply_as(const at::Tensor& in, const at::Tensor& out, const DropoutNumbers& numbers) {
  const auto* from = static_cast<const T*>(in.const_data_ptr());
  auto* to = static_cast<T*>(out.mutable_data_ptr());
  if (in.is_cuda()) {
    dropout_gpu(from, to, in.numel(), numbers, current_gpu_stream(in.get_device()));
  } else {
    dropout_cpu(from, to, in.numel(), numbers);
  }
}

at::Tensor apply_mask(const at::Tensor& input, const DropoutNumbers& numbers) {
  const at::Tensor in = input.contiguous();
  at::Tensor out = at::empty_like(in);
  if (in.scalar_type() == at::kFloat) {
    apply_as<float>(in, out, numbers);
  } else if (in.scalar_type() == at::kBFloat16) {
    apply_as<Bfloat16>(in, out, numbers);
  } else {
    HYPERION_CHECK(in.scalar_type() == at::kHalf, "dropout takes fp32, bf16 or fp16");
    apply_as<Half>(in, out, numbers);
  }
  return out;
}

struct Dropout : torch::autograd::Function<Dropout> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input, double p, int64_t key,
                            int64_t counter) {
    context->saved_data["p"] = p;
    context->saved_data["key"] = key;
    context->saved_data["counter"] = counter;
    return apply_mask(input, numbers(p, key, counter));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto& saved = context->saved_data;
    const auto n = numbers(saved.at("p").toDouble(), saved.at("key").toInt(), saved.at("counter").toInt());
    return {apply_mask(gradients[0], n), {}, {}, {}};
  }
  static DropoutNumbers numbers(double p, int64_t key, int64_t counter) {
    const auto low = [](int64_t bits) { return static_cast<uint32_t>(bits); };
    const auto high = [](int64_t bits) { return static_cast<uint32_t>(static_cast<uint64_t>(bits) >> 32); };
    return {{low(key), high(key)}, low(counter), high(counter), static_cast<float>(p), static_cast<float>(1 / (1 - p))};
  }
};

int64_t pack(uint32_t low, uint32_t high) { return static_cast<int64_t>(uint64_t{high} << 32 | low); }

}  // namespace

at::Tensor dropout(const at::Tensor& input, double p, const RandomPlace& place) {
  HYPERION_CHECK(p >= 0 && p < 1, "dropout's probability lies in [0, 1)");
  if (p == 0) return input;
  return Dropout::apply(input, p, pack(place.key.low, place.key.high), pack(place.step, place.micro_batch));
}

}  // namespace hyperion::kernels
