// The weights of a process that has stages of a pipeline, shards of layers, or both, and not all of the model
// (parallel/trained_weights.h): a table that both ends of a pipeline have gets the sum of their gradients, and so do
// weights that several shards use on parts of what a layer computes; norm and loss are those of the whole model. What
// lies below, whole or cut among the processes that share the batch, is another's work.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hyperion/comm/group.h"
#include "hyperion/parallel/trained_weights.h"

namespace hyperion::parallel {

// same_bits: where each trained weight of a process stands among the `count` that its model trains; kElsewhere: another
// process answers for it.
struct NormPlaces {
  static constexpr int64_t kElsewhere = -1;
  std::vector<int64_t> places = {};
  int64_t count = 0;
};

class ModelParallelWeights final : public TrainedWeights {
 public:
  // `tied`: that table's name; empty: there is none.
  ModelParallelWeights(std::unique_ptr<TrainedWeights> own, Processes& processes, std::string tied);
  // With the bits of one process: `own` has added up that table's gradients, part by part.
  ModelParallelWeights(std::unique_ptr<TrainedWeights> own, Processes& processes, NormPlaces places);

  std::vector<nn::Parameter> take_parts() override;
  bool travel() const override { return true; }
  nn::BlockHook* block_hook() override { return own_->block_hook(); }
  void begin_pass() override { own_->begin_pass(); }
  void end_pass() override { own_->end_pass(); }
  void begin_backward(int64_t index, int64_t count, int64_t part) override { own_->begin_backward(index, count, part); }
  void end_backward() override { own_->end_backward(); }
  std::vector<at::Tensor> gradients() override;
  void drop_gradients() override { own_->drop_gradients(); }
  SumsSoFar sums_so_far() const override { return own_->sums_so_far(); }
  void go_on_from(const SumsSoFar& before) override { own_->go_on_from(before); }
  optim::ClipResult clip(optim::Optimizer& optimizer, const std::vector<at::Tensor>& gradients, double limit,
                         double loss_scale, at::Tensor& loss) override;
  void updated() override { own_->updated(); }
  void settle() override { own_->settle(); }
  Bytes bytes(int64_t micro_batches) const override { return own_->bytes(micro_batches); }

 private:
  void hold() override { whole_.emplace(*own_); }
  void let_go() override { whole_.reset(); }
  optim::ClipResult clip_in_order(const std::vector<at::Tensor>& gradients, double limit, double loss_scale,
                                  at::Tensor& loss);
  void add_up(std::vector<at::Tensor>& gradients, const std::vector<size_t>& which, comm::Group& group) const;

  std::unique_ptr<TrainedWeights> own_;
  Processes& processes_;
  std::string tied_;
  std::optional<NormPlaces> places_;
  at::Tensor index_;                               // those, on the device
  std::optional<size_t> tied_part_;                // which of the parts
  std::map<int64_t, std::vector<size_t>> summed_;  // parts by nn::Parameter::summed
  std::vector<char> counts_;                       // of each part: its norm is not another's to count
  std::optional<Whole> whole_;
};

}  // namespace hyperion::parallel
