#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "hyperion/blocks/block_ops.h"
#include "hyperion/kernels/cross_entropy_math.h"
#include "hyperion/kernels/embedding.h"
#include "hyperion/kernels/gemm.h"
#include "hyperion/kernels/tensor_forms.h"
#include "hyperion/kernels/typed.h"

namespace hyperion::blocks {

using kernels::as_rows;
using kernels::on_gpu;
using kernels::pointer;
using kernels::stream_of;
using kernels::with_type;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kIgnoredTarget = -100, kElsewhere = -1;
constexpr int64_t kBytes = 704 << 20, kRows = 128;  // of logits at a time; in steps of rows

// Of the logits of all classes, also where only some are here: pieces are as many either way.
int64_t rows_at_once(const at::Tensor& hidden, int64_t classes) {
  const int64_t most = kBytes / (classes * hidden.element_size()) / kRows * kRows;
  const int64_t parts = (hidden.size(0) + std::max(most, kRows) - 1) / std::max(most, kRows);
  return (hidden.size(0) + parts * kRows - 1) / (parts * kRows) * kRows;  // even parts
}

// Of each row the logarithm of its sum of exponentials and the target's logit, [2, rows], from all processes that have
// classes of it.
at::Tensor of_all_classes(const at::Tensor& sums, const at::Tensor& picked, const ClassShards& shards) {
  const auto all = shards.gather(at::stack({sums, picked}));
  return at::stack({at::logsumexp(all.select(1, 0), {0}), all.select(1, 1).sum(0)});
}

// Logits into their gradients, up to the factor that all share. Targets of classes that are not here are kElsewhere.
void gradients_in_place(at::Tensor logits, const at::Tensor& targets, at::Tensor losses, bool gradients,
                        const ClassShards* shards) {
  const auto wide = logits.to(at::kFloat), counted = targets.ne(kIgnoredTarget).to(at::kFloat);
  const auto here = targets.ge(0).to(at::kFloat), safe = targets.clamp_min(0).unsqueeze(1);
  auto sums = at::logsumexp(wide, {1}), picked = wide.gather(1, safe).squeeze(1).mul(here);
  if (shards != nullptr) {
    const auto all = of_all_classes(sums, picked, *shards);
    sums = all[0], picked = all[1];
  }
  losses.copy_(sums.sub(picked).mul(counted));
  if (!gradients) return;
  const auto chances = wide.sub(sums.unsqueeze(1)).exp_();
  chances.scatter_(1, safe, chances.gather(1, safe).sub(here.unsqueeze(1)));
  logits.copy_(chances.mul_(counted.unsqueeze(1)));
}

void gradients_in_place_gpu(at::Tensor logits, const at::Tensor& targets, at::Tensor losses, bool gradients,
                            const ClassShards* shards) {
  const int64_t rows = logits.size(0), classes = logits.size(1);
  with_type(logits.scalar_type(), [&]<class T>(T) {
    const auto forward = [&](const at::Tensor& of, bool with_gradients, float* tops, float* shares) {
      on_gpu([&] {
        kernels::cross_entropy_gpu(
            kernels::CrossEntropyRows<T>{pointer<T>(logits), pointer<const int64_t>(of), pointer<float>(losses), rows,
                                         classes, kIgnoredTarget, with_gradients, tops, shares},
            stream_of(logits));
      });
    };
    if (shards == nullptr) return forward(targets, gradients, nullptr, nullptr);
    // Every row has sums here, whoever has its target: so each asks for some class that is.
    const auto numbers = at::empty({2, rows}, losses.options());
    forward(targets.clamp_min(0), false, pointer<float>(numbers), pointer<float>(numbers) + rows);
    const auto own = numbers[0].sub(numbers[1].log());
    const auto all = of_all_classes(own, own.sub(losses).mul(targets.ge(0)), *shards);
    losses.copy_(all[0].sub(all[1]).mul(targets.ne(kIgnoredTarget)));
    if (!gradients) return;
    const auto one = at::ones({rows}, losses.options());
    on_gpu([&] {
      kernels::cross_entropy_backward_gpu(
          kernels::CrossEntropyBackward<T>{pointer<const T>(logits), pointer<const int64_t>(targets),
                                           pointer<const float>(all), pointer<const float>(one),
                                           pointer<const float>(one), pointer<const float>(one), pointer<T>(logits),
                                           rows, classes, kIgnoredTarget},
          stream_of(logits));
    });
  });
}

// The mean over what is counted, and 1 / their number; nothing counted: a loss of 0.
std::pair<at::Tensor, at::Tensor> mean_loss(const at::Tensor& losses, const at::Tensor& targets) {
  if (!losses.is_cuda()) {
    const auto share = targets.ne(kIgnoredTarget).sum().clamp_min(1).to(at::kFloat).reciprocal();
    return {losses.sum().mul(share), share};
  }
  const auto mean = at::empty({}, losses.options()), share = at::empty({}, losses.options());
  on_gpu([&] {
    kernels::mean_loss_gpu({pointer<float>(losses), pointer<const int64_t>(targets), losses.size(0), kIgnoredTarget,
                            pointer<float>(mean), pointer<float>(share)},
                           stream_of(losses));
  });
  return {mean, share};
}

// in x factor x share, in the type given.
at::Tensor scaled(const at::Tensor& in, const at::Tensor& factor, const at::Tensor& share, at::ScalarType type) {
  auto out = at::empty(in.sizes(), in.options().dtype(type));
  if (!in.is_cuda()) return at::mul_out(out, in, factor.mul(share));
  with_type(type, [&]<class T>(T) {
    const auto scale = [&](const auto* from) {
      on_gpu([&] {
        kernels::scale_gpu(from, pointer<T>(out), in.numel(), pointer<const float>(factor), pointer<const float>(share),
                           stream_of(in));
      });
    };
    in.scalar_type() == type ? scale(pointer<const T>(in)) : scale(pointer<const float>(in));
  });
  return out;
}

struct LinearCrossEntropy : torch::autograd::Function<LinearCrossEntropy> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, const at::Tensor& weight,
                            const at::Tensor& targets, bool gradients, const ClassShards* shards) {
    const int64_t rows = hidden.size(0);
    const int64_t step = rows_at_once(hidden, shards != nullptr ? shards->classes : weight.size(0));
    const auto fp32 = hidden.options().dtype(at::kFloat);
    auto losses = at::empty({rows}, fp32);
    at::Tensor of_hidden, of_weight;
    const bool trained = gradients && weight.requires_grad();
    if (gradients) of_hidden = at::empty_like(hidden);
    if (trained) of_weight = at::empty(weight.sizes(), fp32);
    auto room = at::empty({std::min(step, rows), weight.size(0)}, hidden.options());
    for (int64_t first = 0; first < rows; first += step) {
      const int64_t count = std::min(step, rows - first);
      const auto part = hidden.narrow(0, first, count);
      auto logits = room.narrow(0, 0, count);
      kernels::gemm_into(logits, {.a = part, .b = weight, .transpose_b = true});
      (logits.is_cuda() ? gradients_in_place_gpu : gradients_in_place)(
          logits, targets.narrow(0, first, count), losses.narrow(0, first, count), gradients, shards);
      if (!gradients) continue;
      kernels::gemm_into(of_hidden.narrow(0, first, count), {.a = logits, .b = weight});
      if (trained) kernels::gemm_add(of_weight, {.a = logits, .b = part, .transpose_a = true}, first == 0);
    }
    const auto [mean, share] = mean_loss(losses, targets);
    if (gradients) context->save_for_backward({of_hidden, of_weight, share});
    context->saved_data["weight"] = reinterpret_cast<int64_t>(weight.unsafeGetTensorImpl());
    return mean;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto kept = context->get_saved_variables();
    const auto factor = upstream[0].to(at::kFloat).contiguous();
    const auto type = kept[0].scalar_type();
    at::Tensor of_weight;
    if (kept[1].defined()) {
      of_weight = scaled(kept[1], factor, kept[2], type);
      const auto weight = context->saved_data.at("weight").toInt();
      kernels::leave_table_gradient(reinterpret_cast<const at::TensorImpl*>(weight), of_weight);
    }
    return {scaled(kept[0], factor, kept[2], type), of_weight, {}, {}, {}};
  }
};

at::Tensor apply(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
                 const ClassShards* shards) {
  const bool gradients = c10::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad());
  return LinearCrossEntropy::apply(as_rows(hidden).contiguous(), weight, targets.contiguous(), gradients, shards);
}

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets) {
  return apply(hidden, weight, targets.reshape({-1}), nullptr);
}

at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
                                const ClassShards& shards) {
  const auto flat = targets.reshape({-1}), local = flat.sub(shards.first);
  const auto elsewhere = local.lt(0).logical_or(local.ge(weight.size(0)));
  return apply(hidden, weight,
               local.masked_fill(elsewhere, kElsewhere).masked_fill(flat.eq(kIgnoredTarget), kIgnoredTarget), &shards);
}

}  // namespace hyperion::blocks
