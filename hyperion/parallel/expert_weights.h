// The weights of a process that holds some of the experts of mixtures (parallel/trained_weights.h): these are shared
// with fewer processes than all others are, so that either part is summed, cut and gathered among its own.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "hyperion/base/error.h"
#include "hyperion/comm/group.h"
#include "hyperion/parallel/trained_weights.h"

namespace hyperion::parallel {

class ExpertWeights final : public TrainedWeights {
 public:
  // `peers`: those that hold the other experts, whose norm is added.
  ExpertWeights(std::unique_ptr<TrainedWeights> shared, std::unique_ptr<TrainedWeights> experts, comm::Group& peers);

  std::vector<nn::Parameter> take_parts() override;
  bool travel() const override { return true; }
  nn::BlockHook* block_hook() override { return hook_ ? &*hook_ : nullptr; }
  void begin_pass() override { shared_->begin_pass(), experts_->begin_pass(); }
  void end_pass() override { shared_->end_pass(), experts_->end_pass(); }
  void begin_backward(int64_t index, int64_t count, int64_t part) override;
  void end_backward() override { shared_->end_backward(), experts_->end_backward(); }
  std::vector<at::Tensor> gradients() override;
  SumsSoFar sums_so_far() const override { return recorded(); }
  void go_on_from(const SumsSoFar& /*before*/) override { recorded(); }
  void drop_gradients() override { shared_->drop_gradients(), experts_->drop_gradients(); }
  optim::ClipResult clip(optim::Optimizer& optimizer, const std::vector<at::Tensor>& gradients, double limit,
                         double loss_scale, at::Tensor& loss) override;
  void updated() override { shared_->updated(), experts_->updated(); }
  void settle() override { shared_->settle(), experts_->settle(); }
  Bytes bytes(int64_t micro_batches) const override;

 private:
  class BothHooks final : public nn::BlockHook {
   public:
    BothHooks(nn::BlockHook& outer, nn::BlockHook& inner) : outer_(outer), inner_(inner) {}
    at::Tensor run(nn::Module& block, const at::Tensor& input, const Forward& forward) override;

   private:
    nn::BlockHook &outer_, &inner_;
  };
  static SumsSoFar recorded() { throw base::Error("where tokens go to other processes nothing is recorded"); }
  void hold() override { whole_shared_.emplace(*shared_), whole_experts_.emplace(*experts_); }
  void let_go() override { whole_experts_.reset(), whole_shared_.reset(); }

  std::unique_ptr<TrainedWeights> shared_, experts_;
  comm::Group& peers_;
  size_t shared_parts_ = 0;  // the first of all
  std::optional<BothHooks> hook_;
  std::optional<Whole> whole_shared_, whole_experts_;
};

}  // namespace hyperion::parallel
