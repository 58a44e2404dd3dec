#include "hyperion/nn/experts.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>

#include <algorithm>
#include <tuple>

#include "hyperion/blocks/block_ops.h"
#include "hyperion/blocks/grouped_linear.h"
#include "hyperion/kernels/activations.h"
#include "hyperion/kernels/top_k.h"
#include "hyperion/nn/expert_exchange.h"
#include "hyperion/nn/recompute.h"
#include "hyperion/nn/shards.h"
#include "hyperion/strategy/expert_parallel.h"

namespace hyperion::nn {

namespace {

// Of each expert gate and up, then of each down.
std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>> weights_of(const ExpertList& experts) {
  std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>> all;
  for (const auto& expert : experts) {
    all.first.push_back(expert->gate().weight());
    all.first.push_back(expert->up().weight());
    all.second.push_back(expert->down().weight());
  }
  return all;
}

bool all_plain(const ExpertList& experts) {
  return std::all_of(experts.begin(), experts.end(), [](const auto& expert) {
    return expert->gate().plain() && expert->up().plain() && expert->down().plain();
  });
}

bool any_trained(const ExpertList& experts) {
  return std::any_of(experts.begin(), experts.end(), [](const auto& expert) {
    const auto all = expert->parameters();
    return std::any_of(all.begin(), all.end(), [](const at::Tensor& each) { return each.requires_grad(); });
  });
}

}  // namespace

Routing route(const at::Tensor& logits, int64_t choices, bool normalised, bool reference) {
  Routing routing;
  std::tie(routing.experts, routing.weights) =
      reference ? kernels::top_k_reference(logits, choices, normalised) : kernels::top_k(logits, choices, normalised);
  return routing;
}

int64_t capacity_of(int64_t tokens, const MixtureShape& shape) {
  return strategy::expert_capacity({shape.experts, shape.choices, shape.capacity_factor}, tokens);
}

at::Tensor capacity_of(const at::Tensor& mask, const MixtureShape& shape) {
  const auto tokens = mask.sum().to(at::kDouble);
  const auto fair = tokens.mul(shape.choices).div(static_cast<double>(shape.experts));
  return fair.mul(shape.capacity_factor).ceil().clamp_min(1).minimum(tokens).to(at::kInt);
}

at::Tensor grouped_experts(const at::Tensor& rows, const at::Tensor& ends, const ExpertList& experts,
                           const PassSettings& pass) {
  const auto [in, out] = weights_of(experts);
  const auto packed = blocks::grouped_linear(rows, ends, in, pass.later);
  const auto active = cheap(
      pass, {packed}, [](const auto& each) { return kernels::activation(each[0], kernels::Activation::gated_silu); });
  return blocks::grouped_linear(active, ends, out, pass.later);
}

bool grouping_helps(const at::Tensor& rows, const ExpertList& experts) {
  const auto& weight = experts.front()->gate().weight();
  return all_plain(experts) && rows.is_cuda() && rows.scalar_type() == at::kBFloat16 &&
         weight.scalar_type() == at::kBFloat16 && weight.size(0) % 8 == 0 && weight.size(1) % 8 == 0;
}

RoutedExperts::RoutedExperts(const MixtureShape& shape, std::shared_ptr<Linear> router)
    : shape_(shape), router_(std::move(router)) {
  for (int64_t i = 0; i < shape.experts; ++i) {
    experts_.push_back(register_module(std::to_string(i), std::make_shared<GatedFeedForward>(shape.expert)));
    experts_.back()->leave_layout();
  }
}

void RoutedExperts::lay_out() {
  if (!all_plain(experts_)) return;
  const auto [in, out] = weights_of(experts_);
  blocks::lay_together(in);
  blocks::lay_together(out);
}

at::Tensor RoutedExperts::forward(const at::Tensor& tokens, Pass& pass) {
  const auto logits = run(*router_, tokens, pass);
  pass.router_logits.push_back(one_share(logits, pass));
  kernels::Capacity capacity{pass.training ? capacity_of(tokens.size(0), shape_) : 0};
  auto routing = route(logits, shape_.choices, shape_.normalised, pass.reference);
  if (capacity.rows > 0 && pass.token_mask.defined()) {  // padding takes no token's place
    capacity.limit = capacity_of(pass.token_mask, shape_);
    routing.experts = routing.experts.masked_fill(pass.token_mask.reshape({-1, 1}).logical_not(), -1);
  }
  LocalDispatcher here;
  ReferenceDispatcher plain;
  TokenDispatcher& dispatcher = dispatcher_      ? *dispatcher_
                                : pass.reference ? static_cast<TokenDispatcher&>(plain)
                                                 : here;
  auto dispatched = dispatcher.dispatch(tokens, routing, shape_.experts, capacity);
  if (counter_.defined() && pass.training && !pass.recomputing)
    count_choices(counter_, routing.experts, dispatched.ends, capacity);
  if (pass.experts != nullptr) dispatched = among_peers(dispatched, *pass.experts, any_trained(experts_));
  const auto [first, count] = own_experts(shape_.experts, pass.experts);
  const ExpertList own(experts_.begin() + first, experts_.begin() + first + count);
  const bool grouped = !pass.reference && dispatched.rows.size(0) > 0 && grouping_helps(dispatched.rows, own);
  return dispatched.combine(grouped ? grouped_experts(dispatched.rows, dispatched.ends, own, pass)
                                    : looped(dispatched, own, pass));
}

at::Tensor RoutedExperts::looped(const Dispatched& dispatched, const ExpertList& experts, Pass& pass) {
  const auto ends = dispatched.ends.to(at::kCPU);
  const bool training = at::GradMode::is_enabled();
  std::vector<at::Tensor> answers;
  int64_t first = 0;
  for (size_t i = 0; i < experts.size(); ++i) {
    const int64_t count = ends.const_data_ptr<int32_t>()[i] - first;
    if (count > 0 || training) answers.push_back(run(*experts[i], dispatched.rows.narrow(0, first, count), pass));
    first += count;
  }
  return answers.empty() ? dispatched.rows : at::cat(answers);
}

MixtureOfExperts::MixtureOfExperts(const MixtureShape& shape, std::shared_ptr<Norm> norm) : norm_(std::move(norm)) {
  const auto to = [&](int64_t out) {
    return std::make_shared<Linear>(shape.expert.width, out, /*with_bias=*/false, shape.expert.init);
  };
  gate_ = register_module("gate", to(shape.experts));
  experts_ = register_module("experts", std::make_shared<RoutedExperts>(shape, gate_));
  if (shape.shared_inner == 0) return;
  GatedShape shared = shape.expert;
  shared.inner = shape.shared_inner;
  shared_expert_ = register_module("shared_expert", std::make_shared<GatedFeedForward>(shared));
  shared_expert_gate_ = register_module("shared_expert_gate", to(1));
}

at::Tensor MixtureOfExperts::forward(const at::Tensor& input, Pass& pass) {
  const auto whole = into_shards(norm_ ? run(*norm_, input, pass) : input, pass);
  const auto tokens = whole.reshape({-1, whole.size(-1)});
  auto out = run(*experts_, tokens, pass);
  if (shared_expert_) {
    const auto gate = at::sigmoid(run(*shared_expert_gate_, tokens, pass));
    out = out.add(gate.mul(run(*shared_expert_, tokens, pass)));
  }
  const auto sum = out_of_shards(out.view(whole.sizes()), pass);
  return norm_ ? input + sum : sum;
}

}  // namespace hyperion::nn
