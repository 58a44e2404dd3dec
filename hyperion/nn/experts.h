// Mixture of experts (Shazeer et al., 2017): a router sends each token to a few of many feed-forward networks, as in
// Mixtral (Jiang et al., 2024) and Qwen2-MoE.
#pragma once
#include "hyperion/nn/dispatch.h"
#include "hyperion/nn/feed_forward.h"

namespace hyperion::nn {

struct MixtureShape {
  GatedShape expert;
  int64_t experts, choices;  // of experts; of each token
  bool normalised = true;    // a token's weights sum to 1
  int64_t shared_inner = 0;  // a further expert takes every token, through a sigmoid gate of its own; 0: none
  // In training an expert takes ceil(factor * tokens * choices / experts), of tokens that are no padding; 0: all.
  double capacity_factor = 0;
};

// The likeliest `choices` experts by softmax in fp32 of the logits [tokens, experts].
Routing route(const at::Tensor& logits, int64_t choices, bool normalised, bool reference = false);

// Rows an expert takes, from 1 to all tokens; 0 where the factor is 0.
int64_t capacity_of(int64_t tokens, const MixtureShape& shape);
// The same where only tokens that `mask` marks count, a number on its device: int32.
at::Tensor capacity_of(const at::Tensor& mask, const MixtureShape& shape);

using ExpertList = std::vector<std::shared_ptr<GatedFeedForward>>;

// Each expert on its own rows, in two products for all of them together. The experts have no biases.
at::Tensor grouped_experts(const at::Tensor& rows, const at::Tensor& ends, const ExpertList& experts,
                           const PassSettings& pass);
// Whether it is both possible and faster: on a GPU in bf16, widths in steps of 16 bytes.
bool grouping_helps(const at::Tensor& rows, const ExpertList& experts);

// The experts, named 0, 1, 2 and so on. Every expert's parameters get a gradient, be it zero, whether or not a token
// came by. Where the pass has peers, this process computes with its own experts alone, of all processes' tokens.
class RoutedExperts final : public Module {
 public:
  // The router belongs to the parent, under a name of its own.
  RoutedExperts(const MixtureShape& shape, std::shared_ptr<Linear> router);
  at::Tensor forward(const at::Tensor& tokens, Pass& pass) override;  // [tokens, width]; leaves the router's logits
  int64_t experts() const { return shape_.experts; }
  bool with_capacity() const { return shape_.capacity_factor > 0; }
  // In training choices are added to it (nn/expert_load.h); undefined: to nothing.
  void count_into(at::Tensor counter) { counter_ = std::move(counter); }
  void set_dispatcher(std::shared_ptr<TokenDispatcher> dispatcher) { dispatcher_ = std::move(dispatcher); }

 private:
  at::Tensor looped(const Dispatched& dispatched, const ExpertList& experts, Pass& pass);
  void lay_out() override;  // behind each other in memory, so that products of all take them where they are

  MixtureShape shape_;
  std::shared_ptr<Linear> router_;
  ExpertList experts_;
  std::shared_ptr<TokenDispatcher> dispatcher_;  // null: one of nn/dispatch.h
  at::Tensor counter_;
};

// Router `gate`, `experts`, and where there is a shared one `shared_expert` and `shared_expert_gate`. Capacity holds in
// training alone: elsewhere no token is dropped, so that an answer does not depend on its neighbours.
class MixtureOfExperts final : public Module {
 public:
  // Behind a block's norm it is a half of that block: input + mixture(norm(input)).
  explicit MixtureOfExperts(const MixtureShape& shape, std::shared_ptr<Norm> norm = nullptr);
  at::Tensor forward(const at::Tensor& input, Pass& pass) override;  // [..., width]

 private:
  std::shared_ptr<Norm> norm_;  // its parent's; null: none
  std::shared_ptr<Linear> gate_, shared_expert_gate_;
  std::shared_ptr<RoutedExperts> experts_;
  std::shared_ptr<GatedFeedForward> shared_expert_;
};

}  // namespace hyperion::nn
