#include "hyperion/nn/expert_exchange.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <numeric>
#include <utility>
#include <vector>

#include "hyperion/kernels/tensor_forms.h"
#include "hyperion/nn/processes.h"

// Two ways, each the other's transpose: rows travel and are sorted by expert; or they are put back into the order they
// came in, and travel home. So either's backward is the other, with the numbers of rows that were told before the
// first.
namespace hyperion::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char *kTokens = "tokens", *kTokenGradients = "gradients of tokens", *kCounts = "numbers of tokens";

struct Journey final : torch::CustomClassHolder {
  explicit Journey(ExpertPeers& given) : peers(given) {}

  at::Tensor there(const at::Tensor& rows, const char* caller) const {
    const auto given = peers.exchange(rows, sent, received, caller);
    return order.defined() ? given.index_select(0, order) : given;
  }
  at::Tensor home(const at::Tensor& rows, const char* caller) const {
    return peers.exchange(order.defined() ? rows.index_select(0, inverse) : rows, received, sent, caller);
  }

  ExpertPeers& peers;
  std::vector<int64_t> sent, received;  // rows, by process
  at::Tensor order, inverse;            // int64, of received rows; undefined: they come as they are wanted
};

enum class Way { there, home };

// `anchor`: where it requires a gradient the backward comes by, whether or not the rows do.
struct Travelled : torch::autograd::Function<Travelled> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows,
                            const std::optional<at::Tensor>& /*anchor*/, const c10::intrusive_ptr<Journey>& journey,
                            Way way) {
    context->saved_data["journey"] = c10::IValue::make_capsule(journey);
    context->saved_data["home"] = way == Way::home;
    return way == Way::home ? journey->home(rows, kTokens) : journey->there(rows, kTokens);
  }
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto capsule = context->saved_data.at("journey").toCapsule();
    const auto& journey = static_cast<const Journey&>(*capsule);
    const bool home = context->saved_data.at("home").toBool();
    return {
        home ? journey.there(upstream[0], kTokenGradients) : journey.home(upstream[0], kTokenGradients), {}, {}, {}};
  }
};

std::vector<int64_t> sums_of(const at::Tensor& counts, int64_t processes) {
  const auto sums = counts.view({processes, -1}).sum(1);
  return {sums.const_data_ptr<int64_t>(), sums.const_data_ptr<int64_t>() + processes};
}

// Of rows of `counts` [processes, experts], which lie process by process, where each comes from if they are to lie
// expert by expert.
at::Tensor by_expert(const at::Tensor& counts, const c10::Device& device) {
  const int64_t processes = counts.size(0), experts = counts.size(1);
  const auto* count = counts.const_data_ptr<int64_t>();
  std::vector<int64_t> first(static_cast<size_t>(processes * experts));
  std::exclusive_scan(count, count + processes * experts, first.begin(), int64_t{0});
  const auto order = at::empty({counts.sum().item<int64_t>()}, at::kLong);
  auto* next = order.mutable_data_ptr<int64_t>();
  for (int64_t expert = 0; expert < experts; ++expert)
    for (int64_t process = 0; process < processes; ++process) {
      const int64_t place = process * experts + expert;
      std::iota(next, next + count[place], first[static_cast<size_t>(place)]);
      next += count[place];
    }
  return order.to(device);
}

at::Tensor inverse_of(const at::Tensor& order) {
  return at::empty_like(order).scatter_(0, order, at::arange(order.numel(), order.options()));
}

}  // namespace

OwnExperts own_experts(int64_t experts, const ExpertPeers* peers) {
  if (peers == nullptr) return {0, experts};
  const int64_t count = experts / peers->count();
  return {peers->index() * count, count};
}

Dispatched among_peers(const Dispatched& here, ExpertPeers& peers, bool trained) {
  const int64_t processes = peers.count(), own = here.ends.numel() / processes;
  const auto device = here.rows.device();
  const auto ends = here.ends.to(at::kLong);
  const auto sent = ends.sub(at::cat({at::zeros({1}, ends.options()), ends.narrow(0, 0, ends.numel() - 1)}));
  const std::vector<int64_t> even(static_cast<size_t>(processes), own);
  const auto told = at::stack({sent, peers.exchange(sent.view({-1, 1}), even, even, kCounts).view(-1)}).cpu();
  const auto received = told[1].view({processes, own});

  auto journey = c10::make_intrusive<Journey>(peers);
  journey->sent = sums_of(told[0], processes), journey->received = sums_of(told[1], processes);
  if (own > 1) journey->order = by_expert(received, device), journey->inverse = inverse_of(journey->order);
  at::Tensor anchor;
  if (trained && at::GradMode::is_enabled()) anchor = at::empty({0}, at::kFloat).requires_grad_();
  return {Travelled::apply(here.rows, std::nullopt, journey, Way::there),
          received.sum(0).cumsum(0).to(device, at::kInt),
          [journey, anchor, combine = here.combine](const at::Tensor& answers) {
            return combine(Travelled::apply(answers, kernels::maybe(anchor), journey, Way::home));
          }};
}

}  // namespace hyperion::nn
