#include "hyperion/nn/experts.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <cmath>

#include "hyperion/nn/activation.h"

namespace hyperion::nn {

Routing route(const at::Tensor& logits, int64_t choices, bool normalised) {
  auto [weights, experts] = at::topk(at::softmax(logits, -1, at::kFloat), choices, -1);
  if (normalised) weights = weights.div(weights.sum(-1, /*keepdim=*/true));
  return {experts, weights};
}

int64_t capacity_of(int64_t tokens, const MixtureShape& shape) {
  if (shape.capacity_factor <= 0) return 0;
  const double fair = static_cast<double>(tokens * shape.choices) / static_cast<double>(shape.experts);
  return std::clamp<int64_t>(std::llround(std::ceil(shape.capacity_factor * fair)), 1, tokens);
}

at::Tensor grouped_experts(const at::Tensor& rows, const at::Tensor& ends, const ExpertList& experts,
                           const Pass& pass) {
  const auto product = [&](const at::Tensor& input, const Linear& (GatedFeedForward::*part)() const) {
    std::vector<at::Tensor> weights;
    for (const auto& expert : experts) weights.push_back((*expert.*part)().weight());
    return at::_grouped_mm(input, at::stack(weights).transpose(1, 2), ends);
  };
  const auto gate = product(rows, &GatedFeedForward::gate), up = product(rows, &GatedFeedForward::up);
  return product(gated_silu(gate, up, pass), &GatedFeedForward::down);
}

bool grouping_helps(const at::Tensor& rows, const ExpertList& experts) {
  for (const auto& expert : experts)
    if (!expert->gate().plain() || !expert->up().plain() || !expert->down().plain()) return false;
  const auto& weight = experts.front()->gate().weight();
  return rows.is_cuda() && rows.scalar_type() == at::kBFloat16 && weight.scalar_type() == at::kBFloat16 &&
         weight.size(0) % 8 == 0 && weight.size(1) % 8 == 0;
}

RoutedExperts::RoutedExperts(const MixtureShape& shape, std::shared_ptr<Linear> router)
    : shape_(shape), router_(std::move(router)), dispatcher_(std::make_shared<LocalDispatcher>()) {
  for (int64_t i = 0; i < shape.experts; ++i)
    experts_.push_back(register_module(std::to_string(i), std::make_shared<GatedFeedForward>(shape.expert)));
}

at::Tensor RoutedExperts::forward(const at::Tensor& tokens, Pass& pass) {
  const auto logits = run(*router_, tokens, pass);
  pass.router_logits.push_back(logits);
  const int64_t capacity = pass.training ? capacity_of(tokens.size(0), shape_) : 0;
  const auto dispatched =
      dispatcher_->dispatch(tokens, route(logits, shape_.choices, shape_.normalised), shape_.experts, capacity);
  const bool grouped = !pass.reference && grouping_helps(dispatched.rows, experts_);
  return dispatched.combine(grouped ? grouped_experts(dispatched.rows, dispatched.ends, experts_, pass)
                                    : looped(dispatched, pass));
}

at::Tensor RoutedExperts::looped(const Dispatched& dispatched, Pass& pass) {
  const auto ends = dispatched.ends.to(at::kCPU);
  const bool training = at::GradMode::is_enabled();
  std::vector<at::Tensor> answers;
  int64_t first = 0;
  for (size_t i = 0; i < experts_.size(); ++i) {
    const int64_t count = ends.const_data_ptr<int32_t>()[i] - first;
    if (count > 0 || training) answers.push_back(run(*experts_[i], dispatched.rows.narrow(0, first, count), pass));
    first += count;
  }
  return at::cat(answers);
}

MixtureOfExperts::MixtureOfExperts(const MixtureShape& shape) {
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
  const auto tokens = input.reshape({-1, input.size(-1)});
  auto out = run(*experts_, tokens, pass);
  if (shared_expert_) {
    const auto gate = at::sigmoid(run(*shared_expert_gate_, tokens, pass));
    out = out.add(gate.mul(run(*shared_expert_, tokens, pass)));
  }
  return out.view(input.sizes());
}

}  // namespace hyperion::nn
