// Weights that several processes train on shares of a batch (parallel/trained_weights.h): which parts a stage of ZeRO
// is made of, and the norm and loss over all of them.
#pragma once
#include <memory>

#include "hyperion/parallel/gradient_reducer.h"
#include "hyperion/parallel/trained_weights.h"
#include "hyperion/parallel/weight_gatherer.h"

namespace hyperion::parallel {

// Of processes that hold one copy of the state between them.
struct SharingGroups {
  comm::Group &gradients, &weights;
};

class DataParallel final : public TrainedWeights {
 public:
  DataParallel(Processes& processes, const SharingGroups& groups, const ParallelConfig& config,
               std::vector<nn::Parameter> weights, nn::Module* root, const Values& values,
               const std::string& tied = {});
  ~DataParallel() override;

  std::vector<nn::Parameter> take_parts() override { return weights_.take_parts(); }
  bool travel() const override { return true; }
  nn::BlockHook* block_hook() override { return gatherer_->block_hook(); }
  void begin_pass() override { gatherer_->begin_pass(); }
  void end_pass() override { gatherer_->end_pass(); }
  void begin_backward(int64_t index, int64_t count, int64_t part) override { reducer_.begin(index, count, part); }
  void end_backward() override { reducer_.end(); }
  std::vector<at::Tensor> gradients() override;
  void drop_gradients() override { reducer_.drop(); }
  SumsSoFar sums_so_far() const override { return reducer_.so_far(); }
  void go_on_from(const SumsSoFar& before) override { reducer_.go_on_from(before); }
  optim::ClipResult clip(optim::Optimizer& optimizer, const std::vector<at::Tensor>& gradients, double limit,
                         double loss_scale, at::Tensor& loss) override;
  at::Tensor norms(const std::vector<at::Tensor>& gradients, at::Tensor& loss) override;
  void updated() override;
  void settle() override { gatherer_->settle(); }
  Bytes bytes(int64_t micro_batches) const override;

 private:
  void hold() override { gatherer_->hold(); }
  void let_go() override { gatherer_->let_go(); }

  comm::Group& group_;     // of the gradients
  comm::Group* replicas_;  // of those that hold the same part of it; null: there are none
  bool same_bits_;
  FlatWeights weights_;
  GradientReducer reducer_;
  std::unique_ptr<WeightGatherer> gatherer_;
};

}  // namespace hyperion::parallel
