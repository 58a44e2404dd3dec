#include "hyperion/nn/shards.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/stack.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "hyperion/blocks/block_ops.h"
#include "hyperion/kernels/embedding.h"
#include "hyperion/nn/context.h"
#include "hyperion/nn/processes.h"

namespace hyperion::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kUncounted = -100;
constexpr int64_t kLogitsAtOnce = 1 << 24;  // in fp32: 64 MiB

// Rows of a table, or classes, as strategy/cut.h cuts a vocabulary.
int64_t first_of(int64_t all, const Shards& shards, int64_t index) { return all * index / shards.count(); }

struct Share : torch::autograd::Function<Share> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& tensor, int64_t count) {
    context->saved_data["count"] = count;
    return tensor.view_as(tensor);
  }
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    return {upstream[0].div(static_cast<double>(context->saved_data.at("count").toInt())), {}};
  }
};

// All processes go on alike with all logits: each keeps the gradient of its own.
struct GatherLogits : torch::autograd::Function<GatherLogits> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& own, int64_t classes, Shards* of) {
    auto& shards = *of;
    context->saved_data["first"] = first_of(classes, shards, shards.index());
    context->saved_data["count"] = own.size(-1);
    const int64_t most = (classes + shards.count() - 1) / shards.count();
    const auto all = shards.gather(at::constant_pad_nd(own, {0, most - own.size(-1)}).contiguous());
    std::vector<at::Tensor> parts;
    for (int64_t i = 0; i < shards.count(); ++i)
      parts.push_back(all[i].narrow(-1, 0, first_of(classes, shards, i + 1) - first_of(classes, shards, i)));
    return at::cat(parts, -1);
  }
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    return {upstream[0].narrow(-1, context->saved_data.at("first").toInt(), context->saved_data.at("count").toInt()),
            {},
            {}};
  }
};

// use(first, count) over all rows, some at a time.
template <class Use>
void in_rows(const at::Tensor& logits, Use use) {
  const int64_t rows = logits.size(0), step = std::max<int64_t>(1, kLogitsAtOnce / logits.size(1));
  for (int64_t first = 0; first < rows; first += step) use(first, std::min(step, rows - first));
}

// own: [tokens, classes here]; targets counted from this process's first class on, out of it where another has them.
struct CrossEntropyOfShards : torch::autograd::Function<CrossEntropyOfShards> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& own, const at::Tensor& targets,
                            const at::Tensor& counted, Shards* shards) {
    const auto here = targets.ge(0).logical_and(targets.lt(own.size(1))).logical_and(counted);
    const auto safe = targets.masked_fill(here.logical_not(), 0);
    const auto numbers = at::empty({2, own.size(0)}, own.options().dtype(at::kFloat));
    const auto sums = numbers[0], picked = numbers[1];
    in_rows(own, [&](int64_t first, int64_t count) {
      const auto wide = own.narrow(0, first, count).to(at::kFloat);
      sums.narrow(0, first, count).copy_(at::logsumexp(wide, {1}));
      picked.narrow(0, first, count).copy_(wide.gather(1, safe.narrow(0, first, count).unsqueeze(1)).squeeze(1));
    });
    picked.mul_(here);
    const auto all = shards->gather(numbers);
    const auto whole = at::logsumexp(all.select(1, 0), {0});
    const auto number = counted.sum().clamp_min(1).to(at::kFloat);
    context->save_for_backward({own, safe, here, counted, whole, number});
    return whole.sub(all.select(1, 1).sum(0)).mul(counted).sum().div(number);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const auto &own = saved[0], &safe = saved[1], &here = saved[2], &counted = saved[3], &whole = saved[4];
    const auto weights = counted.to(at::kFloat).mul(upstream[0].div(saved[5])).unsqueeze(1);
    auto gradient = at::empty_like(own);
    in_rows(own, [&](int64_t first, int64_t count) {
      auto part = own.narrow(0, first, count).to(at::kFloat).sub(whole.narrow(0, first, count).unsqueeze(1)).exp_();
      const auto target = safe.narrow(0, first, count).unsqueeze(1);
      part.scatter_(1, target, part.gather(1, target).sub(here.narrow(0, first, count).unsqueeze(1).to(at::kFloat)));
      gradient.narrow(0, first, count).copy_(part.mul_(weights.narrow(0, first, count)));
    });
    return {gradient, {}, {}, {}};
  }
};

// How many targets are the likeliest of all classes; of equal ones the first counts.
at::Tensor right_in_shards(const at::Tensor& own, const at::Tensor& targets, Shards& shards) {
  const at::NoGradGuard no_grad;
  const auto [values, places] = own.max(-1);
  const auto all = shards.gather(values.to(at::kFloat).contiguous());
  const auto best = std::get<1>(all.max(0));
  return best.eq(shards.index()).logical_and(places.eq(targets)).sum();
}

}  // namespace

at::Tensor into_shards(const at::Tensor& hidden, const PassSettings& pass) {
  return pass.shards != nullptr ? pass.shards->into(hidden, pass.by_sequence) : hidden;
}

at::Tensor out_of_shards(const at::Tensor& part, const PassSettings& pass) {
  return pass.shards != nullptr ? pass.shards->out_of(part, pass.by_sequence) : part;
}

at::Tensor one_share(const at::Tensor& tensor, const PassSettings& pass) {
  return pass.shards != nullptr ? Share::apply(tensor, pass.shards->count()) : tensor;
}

at::Tensor own_tokens(const at::Tensor& all, const PassSettings& pass) {
  if (!pass.by_sequence) return all;
  const int64_t length = all.size(1) / pass.shards->count();
  return all.narrow(1, pass.shards->index() * length, length);
}

int64_t length_of_all(const at::Tensor& hidden, const PassSettings& pass) {
  return pass.by_sequence ? hidden.size(1) * pass.shards->count() : hidden.size(1);
}

kernels::ElementMap own_elements(const at::Tensor& hidden, const Pass& pass) {
  if (!pass.by_sequence) return elements_of(pass.tokens, hidden.size(2));
  const int64_t all = length_of_all(hidden, pass);
  const auto tokens = pass.tokens.whole() ? strategy::TokenCut{all, all} : pass.tokens;
  return elements_of(strategy::part_of(tokens, pass.shards->count(), pass.shards->index()), hidden.size(2));
}

at::Tensor embed_in_shards(const at::Tensor& shard, int64_t rows, const at::Tensor& ids, const PassSettings& pass) {
  const auto local = ids.sub(first_of(rows, *pass.shards, pass.shards->index()));
  const auto here = local.ge(0).logical_and(local.lt(shard.size(0)));
  const auto safe = local.masked_fill(here.logical_not(), 0);
  const auto found = pass.reference ? at::embedding(shard, safe) : kernels::embedding(shard, safe);
  return out_of_shards(found.mul(here.unsqueeze(-1)), pass);
}

at::Tensor logits_of_shards(const at::Tensor& own, int64_t classes, const PassSettings& pass) {
  if (pass.shards == nullptr) return own;
  return GatherLogits::apply(own, classes, pass.shards);
}

at::Tensor cross_entropy_of_shards(const at::Tensor& own, int64_t classes, const at::Tensor& targets, Pass& pass) {
  auto& shards = *pass.shards;
  const auto rows = own.reshape({-1, own.size(-1)});
  const auto flat = targets.reshape({-1});
  const auto local = flat.sub(first_of(classes, shards, shards.index()));
  if (pass.right != nullptr) {
    auto& right = *pass.right;
    const auto here = right_in_shards(rows, local.masked_fill(flat.eq(kUncounted), -1), shards);
    right = right.defined() ? right.add(here) : here;
  }
  return CrossEntropyOfShards::apply(rows, local, flat.ne(kUncounted), &shards);
}

at::Tensor linear_cross_entropy_of_shards(const at::Tensor& hidden, const at::Tensor& weight, int64_t classes,
                                          const at::Tensor& targets, const PassSettings& pass) {
  auto& shards = *pass.shards;
  return blocks::linear_cross_entropy(
      hidden, weight, targets,
      {first_of(classes, shards, shards.index()), classes, [&](const at::Tensor& own) { return shards.gather(own); }});
}

}  // namespace hyperion::nn
