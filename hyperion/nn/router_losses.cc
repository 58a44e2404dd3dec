#include "hyperion/nn/router_losses.h"

#include <ATen/ops/logsumexp.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros_like.h>

#include "hyperion/base/error.h"

namespace hyperion::nn {
namespace {

// fp32 [tokens, 1]: 1 for a token that counts, 0 for one that does not.
at::Tensor counted(const std::vector<at::Tensor>& logits, const at::Tensor& mask) {
  HYPERION_CHECK(!logits.empty(), "a router's loss needs the logits of at least one layer");
  const auto& first = logits.front();
  return mask.defined() ? mask.reshape({-1, 1}).to(first.device(), at::kFloat)
                        : at::ones({first.size(0), 1}, first.options().dtype(at::kFloat));
}

}  // namespace

at::Tensor balance_loss(const std::vector<at::Tensor>& logits, int64_t choices, const at::Tensor& mask) {
  const auto tokens = counted(logits, mask);
  at::Tensor chosen, likely;  // sums for each expert
  for (const auto& layer : logits) {
    const auto probabilities = at::softmax(layer, -1, at::kFloat);
    const auto experts = std::get<1>(at::topk(probabilities.detach(), choices, -1));
    const auto ones = at::zeros_like(probabilities.detach()).scatter_(1, experts, 1).mul(tokens).sum(0);
    const auto sums = probabilities.mul(tokens).sum(0);
    chosen = chosen.defined() ? chosen.add(ones) : ones;
    likely = likely.defined() ? likely.add(sums) : sums;
  }
  const auto rows = tokens.sum().mul(static_cast<double>(logits.size()));
  return chosen.div(rows).mul(likely.div(rows)).sum().mul(static_cast<double>(chosen.size(0)));
}

at::Tensor router_z_loss(const std::vector<at::Tensor>& logits, const at::Tensor& mask) {
  const auto tokens = counted(logits, mask);
  at::Tensor sum;
  for (const auto& layer : logits) {
    const auto squares = at::logsumexp(layer.to(at::kFloat), {1}, /*keepdim=*/true).square().mul(tokens).sum();
    sum = sum.defined() ? sum.add(squares) : squares;
  }
  return sum.div(tokens.sum().mul(static_cast<double>(logits.size())));
}

}  // namespace hyperion::nn
