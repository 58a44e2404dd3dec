#include "hyperion/nn/expert_load.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/nn/experts.h"

namespace hyperion::nn {

ExpertCounters::ExpertCounters(Module* tree, at::Device device) {
  if (tree != nullptr)
    for (const auto& module : tree->modules(/*include_self=*/false))
      if (auto* mixture = dynamic_cast<RoutedExperts*>(module.get())) layers_.push_back(mixture);
  if (layers_.empty()) return;
  const int64_t experts = layers_.front()->experts();
  counted_ = at::zeros({std::ssize(layers_), experts + 1}, at::TensorOptions(device).dtype(at::kInt));
  for (size_t i = 0; i < layers_.size(); ++i) {
    HYPERION_CHECK(layers_[i]->experts() == experts, "all sparse layers have as many experts");
    layers_[i]->count_into(counted_[static_cast<int64_t>(i)]);
  }
}

ExpertCounters::~ExpertCounters() {
  for (auto* layer : layers_) layer->count_into({});
}
ExpertCounters::ExpertCounters(ExpertCounters&&) noexcept = default;
ExpertCounters& ExpertCounters::operator=(ExpertCounters&& other) noexcept {
  std::swap(layers_, other.layers_);
  std::swap(counted_, other.counted_);
  return *this;
}

void ExpertCounters::begin_step() {
  if (counted_.defined()) counted_.zero_();
}

ExpertLoad load_of(const at::Tensor& counted, bool with_capacity) {
  const int64_t layers = counted.size(0), experts = counted.size(1) - 1;
  const auto numbers = counted.to(at::kCPU, at::kLong).contiguous();
  ExpertLoad load;
  int64_t idle = 0, dropped = 0, all = 0;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const auto* row = numbers.const_data_ptr<int64_t>() + layer * (experts + 1);
    const auto choices = static_cast<double>(std::max<int64_t>(row[experts - 1], 1));
    for (int64_t expert = 0; expert < experts; ++expert) {
      const int64_t own = row[expert] - (expert > 0 ? row[expert - 1] : 0);
      idle += own == 0 ? 1 : 0;
      load.busiest = std::max(load.busiest, static_cast<double>(own * experts) / choices);
    }
    dropped += row[experts], all += row[experts - 1];
  }
  load.idle = static_cast<double>(idle) / static_cast<double>(layers * experts);
  if (with_capacity) load.dropped = static_cast<double>(dropped) / static_cast<double>(std::max<int64_t>(all, 1));
  return load;
}

}  // namespace hyperion::nn
