#include "hyperion/parallel/model_parallel_weights.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "hyperion/parallel/processes.h"

namespace hyperion::parallel {

ModelParallelWeights::ModelParallelWeights(std::unique_ptr<TrainedWeights> own, Processes& processes, std::string tied)
    : own_(std::move(own)), processes_(processes), tied_(std::move(tied)) {}

ModelParallelWeights::ModelParallelWeights(std::unique_ptr<TrainedWeights> own, Processes& processes, NormPlaces places)
    : own_(std::move(own)), processes_(processes), places_(std::move(places)) {}

std::vector<nn::Parameter> ModelParallelWeights::take_parts() {
  auto parts = own_->take_parts();
  const bool end = processes_.ends() != nullptr && processes_.ends()->size() > 1;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (end && !tied_.empty() && parts[i].name == tied_) tied_part_ = i;
    if (parts[i].summed > 1) summed_[parts[i].summed].push_back(i);
    counts_.push_back(parts[i].placement.again ? 0 : 1);
  }
  return parts;
}

// In one message.
void ModelParallelWeights::add_up(std::vector<at::Tensor>& gradients, const std::vector<size_t>& which,
                                  comm::Group& group) const {
  std::map<at::ScalarType, std::vector<size_t>> by_type;
  for (const size_t i : which) by_type[gradients[i].scalar_type()].push_back(i);
  for (const auto& [type, list] : by_type) {
    std::vector<at::Tensor> flat;
    for (const size_t i : list) flat.push_back(gradients[i].reshape(-1));
    const auto sum = at::cat(flat);
    group.all_reduce(sum, "shared weights").wait();
    int64_t begin = 0;
    for (const size_t i : list) {
      gradients[i] = sum.narrow(0, begin, gradients[i].numel()).view(gradients[i].sizes());
      begin += gradients[i].numel();
    }
  }
}

std::vector<at::Tensor> ModelParallelWeights::gradients() {
  const at::NoGradGuard no_grad;
  auto list = own_->gradients();
  for (const auto& [count, which] : summed_) add_up(list, which, processes_.neighbours(count));
  if (!tied_part_) return list;
  auto& both = list[*tied_part_];
  both = both.contiguous();
  processes_.ends()->all_reduce(both, "tied weights").wait();
  return list;
}

// What several processes of the model have counts once.
optim::ClipResult ModelParallelWeights::clip(optim::Optimizer& optimizer, const std::vector<at::Tensor>& gradients,
                                             double limit, double loss_scale, at::Tensor& loss) {
  const at::NoGradGuard no_grad;
  if (places_) return clip_in_order(gradients, limit, loss_scale, loss);
  std::vector<at::Tensor> counted;
  for (size_t i = 0; i < gradients.size(); ++i)
    if (counts_[i] != 0) counted.push_back(gradients[i]);
  if (counted.empty()) counted.push_back(loss.to(at::kFloat).mul(0));
  const auto own = own_->clip(optimizer, counted, 0, loss_scale, loss);
  // All shards of the last stage have the same loss.
  const auto told = processes_.mesh().index(strategy::Axis::tp) == 0 ? loss : loss.mul(0);
  const auto both = at::stack({told.to(at::kFloat).reshape({}), own.norm.to(loss.device()).square()});
  processes_.model()->all_reduce(both, "loss and norm").wait();
  loss = both[0];
  return optim::clip_to(both[1].sqrt(), limit, loss_scale);
}

// One process adds up the squares of its weights' norms one after the other: all get all of them, and do the same. Only
// zeros are added on the way.
optim::ClipResult ModelParallelWeights::clip_in_order(const std::vector<at::Tensor>& gradients, double limit,
                                                      double loss_scale, at::Tensor& loss) {
  const auto own = own_->norms(gradients, loss);
  const int64_t count = places_->count;
  if (!index_.defined()) {
    auto list = places_->places;
    std::replace(list.begin(), list.end(), NormPlaces::kElsewhere, count + 1);  // behind what is read
    index_ = at::tensor(at::IntArrayRef(list), at::kLong).to(own.device());
  }
  const auto all = at::zeros({count + 2}, own.options()).index_copy_(0, index_, own);
  all[count].copy_(loss);
  processes_.model()->all_reduce(all, "loss and norm").wait();
  loss = all[count];
  return optim::clip_norms(all.narrow(0, 0, count), limit, loss_scale);
}

}  // namespace hyperion::parallel
