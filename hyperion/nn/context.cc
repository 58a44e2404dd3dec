#include "hyperion/nn/context.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hyperion/base/error.h"
#include "hyperion/blocks/attention.h"
#include "hyperion/blocks/attention_parts.h"
#include "hyperion/kernels/kept_reference.h"
#include "hyperion/kernels/tensor_forms.h"
#include "hyperion/nn/processes.h"

// The ring, forward: at step s this process has the keys and values of the process s places before it, sends them on
// while it attends to them, and merges what comes out into what it has so far. Backward they go round once more, and
// the sums of exponentials over all keys, kept from the forward, make each part's weights those of the whole. What all
// others found of the gradients of a process's keys and values goes round behind them in fp32, begun by the process
// next to theirs, so that the last step brings it home.
namespace hyperion::nn {
namespace {

using blocks::AttentionInputs;
using strategy::TokenCut;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char *kKeys = "keys and values", *kKeyGradients = "gradients of keys and values";

void keep_context(AutogradContext* kept, Context& context) { kernels::keep_reference(kept, "context", context); }
Context& context_of(AutogradContext* kept) { return kernels::kept_reference<Context>(kept, "context"); }

// The queries of this process that see any of the keys at hand, and those keys: places among a process's own tokens.
struct Part {
  int64_t first_query, queries, first_key, keys;
  bool causal;  // a query sees the keys up to its own place; else all of them
};

// One process has the i-th run from either end.
Part part_of(int64_t own, int64_t other, int64_t run) {
  if (own == other) return {0, 2 * run, 0, 2 * run, true};
  if (other < own) return {0, 2 * run, 0, run, false};
  return {run, run, 0, 2 * run, false};
}

// What one step of the ring computes with.
class Ring {
 public:
  // `starts`: int32 [batch, own tokens], where the documents of this process's queries begin; undefined: rows are
  // whole.
  Ring(Context& context, int64_t length, at::Tensor starts, int64_t window)
      : context_(context), length_(length), starts_(std::move(starts)), window_(window) {}

  Part part(int64_t other) const { return part_of(context_.index(), other, length_ / (2 * context_.count())); }
  int64_t other(int64_t step) const { return (context_.index() - step + context_.count()) % context_.count(); }

  AttentionInputs inputs(const Part& part, const at::Tensor& queries, const at::Tensor& keys_values) const {
    return {queries.narrow(2, part.first_query, part.queries), keys_values[0].narrow(2, part.first_key, part.keys),
            keys_values[1].narrow(2, part.first_key, part.keys)};
  }

  blocks::PartSight sight(const Part& part, int64_t other, const at::Tensor& like) const {
    if (!starts_.defined() && window_ == 0) return {part.causal, {}};
    const auto queries = places(context_.index(), like).narrow(0, part.first_query, part.queries).unsqueeze(1);
    const auto keys = places(other, like).narrow(0, part.first_key, part.keys);
    auto seen = keys.le(queries);
    if (window_ > 0) seen = seen.logical_and(keys.gt(queries.sub(window_)));
    seen = seen.unsqueeze(0);
    if (starts_.defined())
      seen = seen.logical_and(keys.ge(starts_.narrow(1, part.first_query, part.queries).unsqueeze(2)));
    return {false, seen.unsqueeze(1)};
  }

 private:
  at::Tensor places(int64_t process, const at::Tensor& like) const {
    const auto all = at::arange(length_, like.options().dtype(at::kInt).requires_grad(false));
    return tokens_of(all, strategy::token_cut(strategy::ContextMethod::ring, context_.count(), process, length_), 0);
  }

  Context& context_;
  int64_t length_;
  at::Tensor starts_;
  int64_t window_;
};

struct RingAttention : torch::autograd::Function<RingAttention> {
  static at::Tensor forward(AutogradContext* kept, const at::Tensor& queries, const at::Tensor& keys,
                            const at::Tensor& values, Context* context, int64_t length,
                            const std::optional<at::Tensor>& starts, int64_t window) {
    const Ring ring(*context, length, kernels::or_none(starts), window);
    auto held = at::stack({keys, values});
    blocks::AttentionPart all;
    for (int64_t step = 0; step < context->count(); ++step) {
      const bool last = step + 1 == context->count();
      const auto next = last ? Context::Answer() : context->pass_on(held, kKeys);
      const int64_t other = ring.other(step);
      const auto part = ring.part(other);
      auto found = blocks::attend_part(ring.inputs(part, queries, held), ring.sight(part, other, queries));
      if (step == 0)
        all = {found.output.to(at::kFloat), std::move(found.sums)};
      else
        blocks::merge_part(all, found, part.first_query);
      if (!last) held = next();
    }
    const auto output = all.output.to(queries.scalar_type());
    keep_context(kept, *context);
    kept->saved_data["length"] = length, kept->saved_data["window"] = window;
    kept->save_for_backward({queries, keys, values, output, all.sums, kernels::or_none(starts)});
    return output;
  }

  static variable_list backward(AutogradContext* kept, const variable_list& upstream) {
    const auto saved = kept->get_saved_variables();
    const auto &queries = saved[0], &output = saved[3], &sums = saved[4];
    auto& context = context_of(kept);
    const Ring ring(context, kept->saved_data.at("length").toInt(), saved[5], kept->saved_data.at("window").toInt());
    const auto& above = upstream[0];
    auto held = at::stack({saved[1], saved[2]});
    const auto of_queries = at::zeros_like(queries, at::kFloat), own = at::zeros_like(held, at::kFloat);
    // Adds what a part gives of the queries' gradient, and gives what it does of its keys' and values'.
    const auto gradients_of = [&](int64_t other, const at::Tensor& of_keys) {
      const auto part = ring.part(other);
      const auto mine = [&](const at::Tensor& tensor) { return tensor.narrow(2, part.first_query, part.queries); };
      const auto found = blocks::part_gradients({mine(output), mine(sums), mine(above)},
                                                ring.inputs(part, queries, held), ring.sight(part, other, queries));
      mine(of_queries).add_(found.queries);
      of_keys[0].narrow(2, part.first_key, part.keys).add_(found.keys);
      of_keys[1].narrow(2, part.first_key, part.keys).add_(found.values);
    };
    Context::Answer next, home;
    if (context.count() > 1) next = context.pass_on(held, kKeys);
    gradients_of(context.index(), own);
    for (int64_t step = 1; step < context.count(); ++step) {
      held = next();
      if (step + 1 < context.count()) next = context.pass_on(held, kKeys);
      const auto of_keys = at::zeros_like(own);
      gradients_of(ring.other(step), of_keys);
      if (home) of_keys.add_(home());
      home = context.pass_on(of_keys, kKeyGradients);
    }
    if (home) own.add_(home());
    const auto narrow = [&](const at::Tensor& tensor) { return tensor.to(queries.scalar_type()); };
    return {narrow(of_queries), narrow(own[0]), narrow(own[1]), {}, {}, {}, {}};
  }
};

struct Exchange : torch::autograd::Function<Exchange> {
  static at::Tensor forward(AutogradContext* kept, const at::Tensor& for_each, Context* context) {
    keep_context(kept, *context);
    return context->exchange(for_each, "heads");
  }
  static variable_list backward(AutogradContext* kept, const variable_list& upstream) {
    return {context_of(kept).exchange(upstream[0], "gradients of heads"), {}};
  }
};

struct Sum : torch::autograd::Function<Sum> {
  static at::Tensor forward(AutogradContext* kept, const at::Tensor& own, Context* context) {
    keep_context(kept, *context);
    return context->sum(own, "sums of routers");
  }
  // All have the same gradient, of a share of the loss each.
  static variable_list backward(AutogradContext* kept, const variable_list& upstream) {
    return {upstream[0].mul(static_cast<double>(context_of(kept).count())), {}};
  }
};

// Tokens for heads before, and back behind: of all tokens a process sees heads that follow each other.
at::Tensor attend_by_heads(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values, int64_t window,
                           const Pass& pass) {
  auto& context = *pass.context;
  const int64_t count = context.count(), own = queries.size(2);
  const int64_t copies = strategy::key_value_copies(keys.size(1), count);
  const auto dealt = [&](const at::Tensor& heads, int64_t times) {
    const auto all = times == 1 ? heads : heads.repeat_interleave(times, 1);
    return all.unflatten(1, {count, all.size(1) / count}).transpose(0, 1);
  };
  const auto q = dealt(queries, 1), k = dealt(keys, copies), v = dealt(values, copies);
  const auto whole = Exchange::apply(at::cat({q, k, v}, 2), &context).permute({1, 2, 0, 3, 4}).flatten(2, 3);
  const auto heads = whole.split_with_sizes({q.size(2), k.size(2), v.size(2)}, 1);
  const blocks::AttentionMask mask{{}, pass.segments, window};
  const auto mixed = pass.reference ? blocks::causal_attention_reference(heads[0], heads[1], heads[2], mask)
                                    : blocks::causal_attention(heads[0], heads[1], heads[2], mask);
  const auto back = mixed.unflatten(2, {count, own}).permute({2, 0, 1, 3, 4});
  return Exchange::apply(back, &context).transpose(0, 1).flatten(1, 2);
}

}  // namespace

at::Tensor tokens_of(const at::Tensor& all, const TokenCut& cut, int64_t dim) {
  if (cut.whole()) return all;
  const auto first = all.narrow(dim, cut.first, cut.run);
  return cut.second < 0 ? first : at::cat({first, all.narrow(dim, cut.second, cut.run)}, dim);
}

kernels::ElementMap elements_of(const TokenCut& cut, int64_t width) {
  if (cut.whole()) return {};
  return {cut.run * width, cut.all * width, cut.first * width, cut.second < 0 ? -1 : cut.second * width};
}

at::Tensor attend_in_context(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                             int64_t window, const Pass& pass) {
  HYPERION_CHECK(!pass.key_mask.defined() && pass.cache == nullptr, "what is cut by tokens has neither mask nor cache");
  if (pass.context->method() == strategy::ContextMethod::ulysses)
    return attend_by_heads(queries, keys, values, window, pass);
  const auto starts = pass.segments.defined() ? tokens_of(pass.segments.starts(), pass.tokens, 1) : at::Tensor();
  return RingAttention::apply(queries, keys, values, pass.context, pass.tokens.all, kernels::maybe(starts), window);
}

at::Tensor sum_over_context(const at::Tensor& own, const PassSettings& pass) {
  return pass.context != nullptr ? Sum::apply(own, pass.context) : own;
}

at::Tensor share_in_context(const at::Tensor& loss, const PassSettings& pass) {
  return pass.context != nullptr ? loss.div(static_cast<double>(pass.context->count())) : loss;
}

}  // namespace hyperion::nn
