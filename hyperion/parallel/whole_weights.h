// The weights of one process alone, as the model has them; gradients as autograd left them.
#pragma once
#include <utility>

#include "hyperion/parallel/trained_weights.h"

namespace hyperion::parallel {

class WholeWeights final : public TrainedWeights {
 public:
  explicit WholeWeights(std::vector<nn::Parameter> weights);

  std::vector<nn::Parameter> take_parts() override { return std::move(parts_); }
  void begin_backward(int64_t index, int64_t count, int64_t /*part*/) override { index_ = index, count_ = count; }
  void end_backward() override;
  SumsSoFar sums_so_far() const override { return {sums_, {}}; }
  void go_on_from(const SumsSoFar& before) override { sums_ = before.sums; }
  std::vector<at::Tensor> gradients() override { return std::exchange(sums_, {}); }
  void drop_gradients() override;
  optim::ClipResult clip(optim::Optimizer& optimizer, const std::vector<at::Tensor>& gradients, double limit,
                         double loss_scale, at::Tensor& loss) override;
  Bytes bytes(int64_t micro_batches) const override;

 private:
  std::vector<nn::Parameter> parts_;
  std::vector<at::Tensor> weights_, sums_;
  int64_t index_ = 0, count_ = 1, held_ = 0;
};

}  // namespace hyperion::parallel
