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
void update(const at::Tensor& master, const at::Tensor& first, const at::Tensor& second, const at::Tensor& weight,
            const at::Tensor& gradient, const at::Tensor& scale, const AdamWNumbers& numbers) {
  const AdamWArrays<Weight, Gradient> arrays{data<float>(master),  data<float>(first),       data<float>(second),
                                             data<Weight>(weight), data<Gradient>(gradient), data<float>(scale)};
  adamw_cpu(arrays, master.numel(), numbers);
}

template <class Weight>
void update_narrow(const at::Tensor& master, const at::Tensor& first, const at::Tensor& second,
                   const at::Tensor& weight, const at::Tensor& gradient, const at::Tensor& scale,
                   const AdamWNumbers& numbers) {
  if (gradient.scalar_type() == at::kFloat)
    return update<Weight, float>(master, first, second, weight, gradient, scale, numbers);
  HYPERION_CHECK(gradient.scalar_type() == weight.scalar_type(), "a gradient is fp32 or of its weight's type");
  update<Weight, Weight>(master, first, second, weight, gradient, scale, numbers);
}

}  // namespace

void adamw(at::Tensor master, at::Tensor first, at::Tensor second, at::Tensor weight, const at::Tensor& gradient,
           const at::Tensor& scale, const AdamWStep& step) {
  for (const at::Tensor& tensor : {master, first, second, weight, gradient})
    HYPERION_CHECK(tensor.is_contiguous() && tensor.numel() == master.numel(), "adamw takes equal, contiguous tensors");
  HYPERION_CHECK(scale.numel() == 1 && scale.scalar_type() == at::kFloat, "adamw's scale is one fp32 number");
  if (master.is_cuda()) {
    Updates one;
    kernels::SmallWrites writes;
    one.set(master.device(), step, writes);
    writes.queue();
    return one.adamw({{master, first, second, weight, gradient, step.decay}}, scale);
  }
  const AdamWNumbers numbers{step.lr,    step.beta1,       step.beta2,      step.epsilon,
                             step.decay, step.correction1, step.correction2};
  const auto type = weight.scalar_type();
  if (type == at::kBFloat16) return update_narrow<Bfloat16>(master, first, second, weight, gradient, scale, numbers);
  if (type == at::kHalf) return update_narrow<kernels::Half>(master, first, second, weight, gradient, scale, numbers);
  HYPERION_CHECK(gradient.scalar_type() == at::kFloat, "an fp32 weight has an fp32 gradient");
  update<float, float>(master, first, second, weight, gradient, scale, numbers);
}

void adamw_reference(at::Tensor master, at::Tensor first, at::Tensor second, at::Tensor weight,
                     const at::Tensor& gradient, const at::Tensor& scale, const AdamWStep& step) {
  const at::Tensor scaled = gradient.to(at::kFloat).mul(scale);
  first.mul_(step.beta1).add_(scaled, 1 - step.beta1);
  second.mul_(step.beta2).addcmul_(scaled, scaled, 1 - step.beta2);
  master.mul_(1 - step.lr * step.decay);
  master.addcdiv_(first.div(step.correction1), second.div(step.correction2).sqrt_().add_(step.epsilon), -step.lr);
  if (!weight.is_same(master)) weight.copy_(master);
}

}  // namespace hyperion::optim
