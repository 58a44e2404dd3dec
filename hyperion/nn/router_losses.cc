#include "hyperion/nn/router_losses.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

namespace hyperion::nn {
namespace {

// fp32 [tokens, 1]: 1 for a token that counts, 0 for one that does not.
at::Tensor counted(const at::Tensor& logits, const at::Tensor& mask) {
  return mask.defined() ? mask.reshape({-1, 1}).to(logits.device(), at::kFloat)
                        : at::ones({logits.size(0), 1}, logits.options().dtype(at::kFloat));
}

struct Sums {
  at::Tensor chosen, likely, squares, layers;
};
Sums parts_of(const at::Tensor& sums) {
  const int64_t experts = (sums.numel() - 2) / 2;
  return {sums.narrow(0, 0, experts), sums.narrow(0, experts, experts), sums[2 * experts], sums[2 * experts + 1]};
}

}  // namespace

int64_t router_sums_size(int64_t experts) { return 2 * experts + 2; }

at::Tensor counted_tokens(const at::Tensor& logits, const at::Tensor& mask) { return counted(logits, mask).sum(); }

at::Tensor router_sums(const at::Tensor& before, const std::vector<at::Tensor>& logits, int64_t choices,
                       const at::Tensor& mask, bool wants_squares) {
  if (logits.empty()) return before;
  const auto tokens = counted(logits.front(), mask);
  const int64_t experts = logits.front().size(1);
  auto [chosen, likely, squares, layers] =
      parts_of(before.defined() ? before : at::zeros({router_sums_size(experts)}, tokens.options()));
  for (const auto& layer : logits) {
    const auto probabilities = at::softmax(layer, -1, at::kFloat);
    const auto best = std::get<1>(at::topk(probabilities.detach(), choices, -1));
    chosen = chosen.add(at::zeros_like(probabilities.detach()).scatter_(1, best, 1).mul(tokens).sum(0));
    likely = likely.add(probabilities.mul(tokens).sum(0));
    if (wants_squares)
      squares = squares.add(at::logsumexp(layer.to(at::kFloat), {1}, /*keepdim=*/true).square().mul(tokens).sum());
  }
  layers = layers.add(static_cast<double>(logits.size()));
  return at::cat({chosen, likely, squares.reshape({1}), layers.reshape({1})});
}

at::Tensor balance_loss(const at::Tensor& sums, const at::Tensor& tokens) {
  const auto [chosen, likely, squares, layers] = parts_of(sums);
  const auto rows = tokens.mul(layers.detach());
  return chosen.detach().div(rows).mul(likely.div(rows)).sum().mul(static_cast<double>(chosen.size(0)));
}

at::Tensor router_z_loss(const at::Tensor& sums, const at::Tensor& tokens) {
  const auto [chosen, likely, squares, layers] = parts_of(sums);
  return squares.div(tokens.mul(layers.detach()));
}

}  // namespace hyperion::nn
