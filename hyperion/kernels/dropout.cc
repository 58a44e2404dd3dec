#include "hyperion/kernels/dropout.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "hyperion/base/error.h"
#include "hyperion/device/graph.h"
#include "hyperion/kernels/gemm.h"
#include "hyperion/kernels/tensor_forms.h"
#include "hyperion/kernels/typed.h"

namespace hyperion::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One number a device, for good: graphs hold its address.
at::Tensor& step_on(at::Device device) {
  static auto* steps = new std::map<c10::DeviceIndex, at::Tensor>;
  return (*steps)[device.index()];
}

// What autograd can keep of a dropout.
struct Kept {
  double p;
  int64_t key, counter;
  ElementMap elements;

  DropoutNumbers numbers(at::Device device) const {
    const auto low = [](int64_t bits) { return static_cast<uint32_t>(bits); };
    const auto high = [](int64_t bits) { return static_cast<uint32_t>(static_cast<uint64_t>(bits) >> 32); };
    const bool recorded = device.is_cuda() && device::recording();
    // p in steps of 2^-16, and the scale that belongs to it: the mean is kept exactly.
    const auto below = static_cast<uint32_t>(std::clamp<int64_t>(std::llround(p * 65536), p > 0 ? 1 : 0, 65535));
    return {{low(key), high(key)},
            low(counter),
            high(counter),
            below,
            65536.0f / static_cast<float>(65536 - below),
            recorded ? pointer<const uint32_t>(step_on(device)) : nullptr,
            elements};
  }
  std::vector<int64_t> elements_list() const {
    return {elements.run,     elements.stride, elements.offset, elements.second,
            elements.columns, elements.width,  elements.column};
  }
  void save(AutogradContext* context) const {
    auto& data = context->saved_data;
    data["p"] = p, data["key"] = key, data["counter"] = counter;
    if (!elements.whole()) data["elements"] = elements_list();
  }
  static Kept of(AutogradContext* context) {
    const auto& data = context->saved_data;
    Kept kept{data.at("p").toDouble(), data.at("key").toInt(), data.at("counter").toInt(), {}};
    if (const auto found = data.find("elements"); found != data.end()) {
      const auto list = found->second.toIntVector();
      kept.elements = {list[0], list[1], list[2], list[3], list[4], list[5], list[6]};
    }
    return kept;
  }
};

at::Tensor apply_mask(const at::Tensor& input, const at::Tensor& bias, const at::Tensor& residual, const Kept& kept) {
  const at::Tensor in = input.contiguous(), added = residual.defined() ? residual.contiguous() : residual;
  const at::Tensor out = at::empty_like(in), every = bias.defined() ? bias.contiguous() : bias;
  const int64_t width = bias.defined() ? bias.numel() : in.numel();
  const auto numbers = kept.numbers(in.device());
  with_type(in.scalar_type(), [&]<class T>(T) {
    const DropoutTensors<T> all{pointer<const T>(in),
                                pointer<const T>(every),
                                pointer<const T>(added),
                                pointer<T>(out),
                                width == 0 ? 0 : in.numel() / width,
                                width};
    in.is_cuda() ? on_gpu([&] { dropout_gpu(all, numbers, stream_of(in)); }) : dropout_cpu(all, numbers);
  });
  return out;
}

struct Dropout : torch::autograd::Function<Dropout> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const Kept& kept) {
    kept.save(context);
    return apply_mask(input, {}, {}, kept);
  }
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    return {apply_mask(upstream[0], {}, {}, Kept::of(context)), {}};
  }
};

struct BiasDropoutResidual : torch::autograd::Function<BiasDropoutResidual> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const std::optional<at::Tensor>& bias,
                            const at::Tensor& residual, const Kept& kept) {
    kept.save(context);
    context->saved_data["bias"] = bias.has_value();
    return apply_mask(input, or_none(bias), residual, kept);
  }
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto of_input = apply_mask(upstream[0], {}, {}, Kept::of(context));
    const bool with_bias = context->saved_data.at("bias").toBool() && context->needs_input_grad(1);
    return {of_input, with_bias ? column_sums(as_rows(of_input)) : at::Tensor(), upstream[0], {}};
  }
};

int64_t pack(uint32_t low, uint32_t high) { return static_cast<int64_t>(uint64_t{high} << 32 | low); }

Kept kept_of(double p, const RandomPlace& place) {
  return {p, pack(place.key.low, place.key.high), pack(place.step, place.micro_batch), place.elements};
}

void check_share(double p) { HYPERION_CHECK(p >= 0 && p < 1, "dropout's probability lies in [0, 1)"); }

}  // namespace

at::Tensor dropout(const at::Tensor& input, double p, const RandomPlace& place) {
  check_share(p);
  if (p == 0) return input;
  return Dropout::apply(input, kept_of(p, place));
}

at::Tensor bias_dropout_residual(const at::Tensor& input, const at::Tensor& bias, const at::Tensor& residual, double p,
                                 const RandomPlace& place) {
  check_share(p);
  HYPERION_CHECK(input.sizes() == residual.sizes() && (!bias.defined() || bias.numel() == input.size(-1)),
                 "a residual has its input's shape, and a bias its width");
  return BiasDropoutResidual::apply(input, maybe(bias), residual, kept_of(p, place));
}

at::Tensor bias_dropout_residual_reference(const at::Tensor& input, const at::Tensor& bias, const at::Tensor& residual,
                                           double p, const RandomPlace& place) {
  return residual.add(dropout(bias.defined() ? input.add(bias) : input, p, place));
}

void set_recorded_step(at::Device device, uint32_t step, SmallWrites& writes) {
  if (!device.is_cuda()) return;
  auto& at = step_on(device);
  if (!at.defined()) at = at::empty({1}, at::TensorOptions(device).dtype(at::kInt));
  writes.set(at, step);
}

}  // namespace hyperion::kernels
