#include "hyperion/kernels/cross_entropy.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

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

}  // namespace

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  if (targets.is_floating_point()) {
    const auto wide = logits.to(at::kFloat), parts = at::zeros_like(wide);
    parts.narrow(1, 0, targets.size(1)).copy_(targets);
    return at::cross_entropy_loss(wide, parts);
  }
  return CrossEntropy::apply(logits.reshape({-1, logits.size(-1)}), targets.reshape({-1}));
}

at::Tensor cross_entropy_reference(const at::Tensor& logits, const at::Tensor& targets) {
  return at::cross_entropy_loss(logits.reshape({-1, logits.size(-1)}).to(at::kFloat), targets.reshape({-1}));
}

}  // namespace hyperion::kernels
