#include "hyperion/kernels/cross_entropy.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "hyperion/kernels/cross_entropy_math.h"
#include "hyperion/kernels/typed.h"

namespace hyperion::kernels {
namespace {

constexpr int64_t kIgnored = -100;
constexpr int64_t kElements = 1 << 24;  // of logits in fp32 at a time: 64 MiB

// use(first, count) over all rows, in chunks.
template <class Use>
void in_chunks(const at::Tensor& logits, Use use) {
  const int64_t rows = logits.size(0), step = std::max<int64_t>(1, kElements / std::max<int64_t>(1, logits.size(1)));
  for (int64_t first = 0; first < rows; first += step) use(first, std::min(step, rows - first));
}

struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets) {
    const auto counted = targets.ne(kIgnored);
    const auto safe = targets.masked_fill(counted.logical_not(), 0);
    const auto sums = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat)), picked = at::empty_like(sums);
    in_chunks(logits, [&](int64_t first, int64_t count) {
      const auto wide = logits.narrow(0, first, count).to(at::kFloat);
      sums.narrow(0, first, count).copy_(at::logsumexp(wide, {1}));
      picked.narrow(0, first, count).copy_(wide.gather(1, safe.narrow(0, first, count).unsqueeze(1)).squeeze(1));
    });
    const auto number = counted.sum().clamp_min(1).to(at::kFloat);  // nothing counted: the loss is 0
    context->save_for_backward({logits, safe, counted, sums, number});
    return sums.sub(picked).mul(counted).sum().div(number);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const auto &logits = saved[0], &safe = saved[1], &counted = saved[2], &sums = saved[3], &number = saved[4];
    const auto weights = counted.to(at::kFloat).mul(upstream[0].div(number)).unsqueeze(1);
    auto gradient = at::empty_like(logits);
    in_chunks(logits, [&](int64_t first, int64_t count) {
      auto part = logits.narrow(0, first, count).to(at::kFloat).sub(sums.narrow(0, first, count).unsqueeze(1)).exp_();
      const auto target = safe.narrow(0, first, count).unsqueeze(1);
      part.scatter_(1, target, part.gather(1, target).sub(1));
      gradient.narrow(0, first, count).copy_(part.mul_(weights.narrow(0, first, count)));
    });
    return {gradient, at::Tensor()};
  }
};

// The same on a GPU: one read of the logits, then one read and one write.
struct CrossEntropyOnGpu : torch::autograd::Function<CrossEntropyOnGpu> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& given,
                            const at::Tensor& targets) {
    auto logits = given.contiguous();
    if (reinterpret_cast<uintptr_t>(logits.const_data_ptr()) % 16 != 0) logits = logits.clone();
    const int64_t rows = logits.size(0);
    const auto numbers = at::empty({3, rows}, logits.options().dtype(at::kFloat)),
               mean = at::empty({}, numbers.options()), share = at::empty_like(mean);
    auto* losses = pointer<float>(numbers);
    with_type(logits.scalar_type(), [&]<class T>(T) {
      on_gpu([&] {
        cross_entropy_gpu(
            CrossEntropyRows<T>{pointer<T>(logits), pointer<int64_t>(targets), losses, rows, logits.size(1), kIgnored,
                                /*gradients=*/false, losses + rows, losses + 2 * rows},
            stream_of(logits));
      });
    });
    on_gpu([&] {
      mean_loss_gpu({losses, pointer<int64_t>(targets), rows, kIgnored, pointer<float>(mean), pointer<float>(share)},
                    stream_of(logits));
    });
    context->save_for_backward({logits, targets, numbers, share});
    return mean;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const auto &logits = saved[0], &targets = saved[1], &numbers = saved[2], &share = saved[3];
    const int64_t rows = logits.size(0);
    const auto factor = upstream[0].to(at::kFloat);
    auto gradient = at::empty_like(logits);
    const auto* of_rows = pointer<float>(numbers);
    with_type(logits.scalar_type(), [&]<class T>(T) {
      on_gpu([&] {
        cross_entropy_backward_gpu(
            CrossEntropyBackward<T>{pointer<T>(logits), pointer<int64_t>(targets), of_rows + rows, of_rows + 2 * rows,
                                    pointer<float>(factor), pointer<float>(share), pointer<T>(gradient), rows,
                                    logits.size(1), kIgnored},
            stream_of(logits));
      });
    });
    return {gradient, at::Tensor()};
  }
};

}  // namespace

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  if (targets.is_floating_point()) {
    const auto wide = logits.to(at::kFloat), parts = at::zeros_like(wide);
    parts.narrow(1, 0, targets.size(1)).copy_(targets);
    return at::cross_entropy_loss(wide, parts);
  }
  const auto rows = logits.reshape({-1, logits.size(-1)}), row_targets = targets.reshape({-1});
  const bool ours = logits.is_cuda() && logits.scalar_type() != at::kDouble && targets.scalar_type() == at::kLong;
  return ours ? CrossEntropyOnGpu::apply(rows, row_targets.contiguous()) : CrossEntropy::apply(rows, row_targets);
}

at::Tensor cross_entropy_reference(const at::Tensor& logits, const at::Tensor& targets) {
  return at::cross_entropy_loss(logits.reshape({-1, logits.size(-1)}).to(at::kFloat), targets.reshape({-1}));
}

}  // namespace hyperion::kernels
