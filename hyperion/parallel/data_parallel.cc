#include "hyperion/parallel/data_parallel.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <iterator>

#include "hyperion/base/format.h"
#include "hyperion/nn/module.h"
#include "hyperion/nn/projection.h"
#include "hyperion/parallel/expert_weights.h"
#include "hyperion/parallel/model_parallel_weights.h"
#include "hyperion/parallel/processes.h"
#include "hyperion/parallel/whole_weights.h"

namespace hyperion::parallel {
namespace {

Held held_by(int64_t zero) { return zero == 0 ? Held::apart : zero < 3 ? Held::flat : Held::pieces; }

at::ScalarType type_of(Wire wire) {
  switch (wire) {
    case Wire::own:
      return at::ScalarType::Undefined;
    case Wire::fp32:
      return at::kFloat;
    case Wire::bf16:
      return at::kBFloat16;
    case Wire::fp16:
      return at::kHalf;
  }
  return at::ScalarType::Undefined;
}

ReduceOptions reduce_options(Processes& processes, const ParallelConfig& config, const std::string& tied) {
  ReduceOptions options{.scatter = config.zero > 0, .each = config.zero > 1};
  options.wire = type_of(config.wire);
  options.same_bits = config.same_bits;
  if (config.same_bits) options.ends = processes.ends(), options.tied = tied;
  options.replicas = processes.replicas();
  if (config.zeropp.grads()) options.node = processes.node(), options.across_nodes = processes.across_nodes();
  return options;
}

GatherOptions gather_options(Processes& processes, const ParallelConfig& config) {
  return {config.prefetch, config.zeropp.weights(), config.zeropp.secondary() ? processes.node() : nullptr};
}

// Weights in 4 bits are no parameters, but are cut all the same: what travels is the packed form.
void add_packed(std::vector<nn::Parameter>& weights, nn::Module& root, const StagedWeights& staged) {
  root.visit([&](const std::string& path, nn::Module& module) {
    const auto* projection = dynamic_cast<nn::Projection*>(&module);
    if (projection == nullptr) return;
    for (const auto& piece : projection->packed()) {
      nn::Parameter part{base::format("{}.packed.{}", path, weights.size()), piece};
      part.placement.expert = staged.spreads && staged.spreads(path + ".weight");
      weights.push_back(std::move(part));
    }
  });
}

// Of weights that all of these groups have alike.
std::unique_ptr<TrainedWeights> shared_among(Processes& processes, const SharingGroups& groups,
                                             const ParallelConfig& config, std::vector<nn::Parameter> weights,
                                             nn::Module* root, const Values& values, const StagedWeights& staged) {
  const bool alone = processes.size() == 1 ? groups.gradients.alone() : groups.gradients.size() == 1;
  NormPlaces norms{.count = std::ssize(staged.trained)};
  for (const auto& weight : weights) {
    if (!weight.tensor.requires_grad() || !config.same_bits) continue;
    const auto found = std::find(staged.trained.begin(), staged.trained.end(), weight.name);
    norms.places.push_back(weight.placement.again ? NormPlaces::kElsewhere : found - staged.trained.begin());
  }
  std::unique_ptr<TrainedWeights> own;
  if (alone && config.zero == 0 && !config.same_bits)
    own = std::make_unique<WholeWeights>(std::move(weights));
  else
    own = std::make_unique<DataParallel>(processes, groups, config, std::move(weights), root, values, staged.tied);
  if (processes.model() == nullptr) return own;
  if (config.same_bits) return std::make_unique<ModelParallelWeights>(std::move(own), processes, std::move(norms));
  return std::make_unique<ModelParallelWeights>(std::move(own), processes, staged.tied);
}

}  // namespace

std::unique_ptr<TrainedWeights> make_trained_weights(Processes& processes, const ParallelConfig& config,
                                                     std::vector<nn::Parameter> weights, nn::Module* root,
                                                     const Values& values, const StagedWeights& staged) {
  const SharingGroups all{processes.gradients(), processes.weights()};
  if (config.zero == 3 && root != nullptr) add_packed(weights, *root, staged);
  if (processes.expert_peers() == nullptr)
    return shared_among(processes, all, config, std::move(weights), root, values, staged);
  const auto middle = std::stable_partition(weights.begin(), weights.end(),
                                            [](const nn::Parameter& weight) { return !weight.placement.expert; });
  std::vector<nn::Parameter> experts(std::make_move_iterator(middle), std::make_move_iterator(weights.end()));
  weights.erase(middle, weights.end());
  auto shared = shared_among(processes, all, config, std::move(weights), root, values, staged);
  return std::make_unique<ExpertWeights>(
      std::move(shared),
      shared_among(processes, {processes.expert_gradients(), processes.expert_weights()}, config, std::move(experts),
                   root, values, staged),
      *processes.expert_peers());
}

DataParallel::DataParallel(Processes& processes, const SharingGroups& groups, const ParallelConfig& config,
                           std::vector<nn::Parameter> weights, nn::Module* root, const Values& values,
                           const std::string& tied)
    : group_(groups.gradients),
      replicas_(processes.replicas()),
      same_bits_(config.same_bits),
      weights_(std::move(weights), root,
               {group_.rank(), group_.size(), held_by(config.zero), config.bucket << 20, tied, values}),
      reducer_(weights_, group_, reduce_options(processes, config, tied)),
      gatherer_(make_gatherer(weights_, groups.weights, gather_options(processes, config),
                              [this](int unit) { reducer_.block_is_over(unit); })) {}

DataParallel::~DataParallel() = default;

std::vector<at::Tensor> DataParallel::gradients() {
  const auto sums = reducer_.sums();
  gatherer_->end_pass();
  return weights_.by_part(sums);
}

optim::ClipResult DataParallel::clip(optim::Optimizer& /*optimizer*/, const std::vector<at::Tensor>& gradients,
                                     double limit, double loss_scale, at::Tensor& loss) {
  const at::NoGradGuard no_grad;
  if (weights_.held() == Held::apart || same_bits_) return optim::clip_norms(norms(gradients, loss), limit, loss_scale);
  const auto square = gradients.empty() ? loss.to(at::kFloat).mul(0) : optim::clip_factor(gradients, 0).norm.square();
  const auto both = at::stack({loss.to(at::kFloat), square});
  group_.all_reduce(both, "loss and norm").wait();
  if (replicas_ != nullptr) {
    const auto sum = both.narrow(0, 0, 1).clone();
    replicas_->all_reduce(sum, "loss").wait();
    both[0].copy_(sum[0]);
  }
  loss = both[0];
  return optim::clip_to(both[1].sqrt().div_(loss_scale), limit, loss_scale);
}

// Of whole weights in their own order, as one process alone finds them.
at::Tensor DataParallel::norms(const std::vector<at::Tensor>& gradients, at::Tensor& loss) {
  const at::NoGradGuard no_grad;
  const auto sum = loss.to(at::kFloat).reshape({1}).clone();
  group_.all_reduce(sum, "loss").wait();
  loss = sum[0];
  const auto whole = weights_.held() == Held::apart ? gradients : weights_.by_weight(reducer_.whole_sums());
  return whole.empty() ? at::empty({0}, sum.options()) : optim::norms_of(whole);
}

void DataParallel::updated() {
  reducer_.drop();
  gatherer_->updated();
}

TrainedWeights::Bytes DataParallel::bytes(int64_t micro_batches) const {
  return {weights_.bytes(), reducer_.bytes(micro_batches), weights_.taken_over()};
}

}  // namespace hyperion::parallel
