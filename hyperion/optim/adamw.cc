#include "hyperion/optim/adamw.h"

#include "hyperion/base/error.h"
#include "hyperion/optim/adamw_math.h"
#include "hyperion/optim/update.h"

namespace hyperion::optim {

using kernels::Bfloat16;

namespace {

template <class T>
T* data(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

template <class Weight, class Gradient>
void update(const UpdateTensors& t, const at::Tensor& scale, const AdamWNumbers& numbers) {
  const AdamWArrays<Weight, Gradient> arrays{data<float>(t.master),  data<float>(t.first),       data<float>(t.second),
                                             data<Weight>(t.weight), data<Gradient>(t.gradient), data<float>(scale)};
  adamw_cpu(arrays, t.master.numel(), numbers);
}

template <class Weight>
void update_narrow(const UpdateTensors& t, const at::Tensor& scale, const AdamWNumbers& numbers) {
  if (t.gradient.scalar_type() == at::kFloat) return update<Weight, float>(t, scale, numbers);
  HYPERION_CHECK(t.gradient.scalar_type() == t.weight.scalar_type(), "a gradient is fp32 or of its weight's type");
  update<Weight, Weight>(t, scale, numbers);
}

}  // namespace

void adamw(const UpdateTensors& t, const at::Tensor& scale, const AdamWStep& step) {
  for (const at::Tensor& tensor : {t.master, t.first, t.second, t.weight, t.gradient})
    HYPERION_CHECK(tensor.is_contiguous() && tensor.numel() == t.master.numel(),
                   "adamw takes equal, contiguous tensors");
  HYPERION_CHECK(scale.numel() == 1 && scale.scalar_type() == at::kFloat, "adamw's scale is one fp32 number");
  if (t.master.is_cuda()) {
    Updates one;
    kernels::SmallWrites writes;
    one.set(t.master.device(), step, writes);
    writes.queue();
    return one.adamw({{t.master, t.first, t.second, t.weight, t.gradient, step.decay}}, scale);
  }
  const AdamWNumbers numbers{step.lr,    step.beta1,       step.beta2,      step.epsilon,
                             step.decay, step.correction1, step.correction2};
  const auto type = t.weight.scalar_type();
  if (type == at::kBFloat16) return update_narrow<Bfloat16>(t, scale, numbers);
  if (type == at::kHalf) return update_narrow<kernels::Half>(t, scale, numbers);
  HYPERION_CHECK(t.gradient.scalar_type() == at::kFloat, "an fp32 weight has an fp32 gradient");
  update<float, float>(t, scale, numbers);
}

void adamw_reference(const UpdateTensors& t, const at::Tensor& scale, const AdamWStep& step) {
  const at::Tensor scaled = t.gradient.to(at::kFloat).mul(scale);
  t.first.mul_(step.beta1).add_(scaled, 1 - step.beta1);
  t.second.mul_(step.beta2).addcmul_(scaled, scaled, 1 - step.beta2);
  t.master.mul_(1 - step.lr * step.decay);
  t.master.addcdiv_(t.first.div(step.correction1), t.second.div(step.correction2).sqrt_().add_(step.epsilon), -step.lr);
  if (!t.weight.is_same(t.master)) t.weight.copy_(t.master);
}

}  // namespace hyperion::optim
