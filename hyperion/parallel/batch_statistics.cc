#include "hyperion/parallel/batch_statistics.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

namespace hyperion::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kCaller = "batch norm";

// Every process's loss depends on every row: a row's gradient is the sum of what all processes find for it.
struct GatherRows : torch::autograd::Function<GatherRows> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& own, int64_t group) {
    context->saved_data["group"] = group;
    auto& ranks = *reinterpret_cast<comm::Group*>(group);
    const auto all = at::empty({ranks.size(), own.numel()}, own.options());
    ranks.all_gather(all, own.contiguous(), kCaller).wait();
    return all;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    auto& ranks = *reinterpret_cast<comm::Group*>(context->saved_data["group"].toInt());
    const auto sum = gradients[0].clone(at::MemoryFormat::Contiguous);
    ranks.all_reduce(sum, kCaller).wait();
    return {sum[ranks.rank()], {}};
  }
};

}  // namespace

at::Tensor BatchStatistics::gather(const at::Tensor& own) {
  return GatherRows::apply(own, reinterpret_cast<int64_t>(&group_));
}

}  // namespace hyperion::parallel
