#include "hyperion/nn/recompute.h"

#include <ATen/SequenceNumber.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/kernels/bias_sums.h"
#include "hyperion/nn/module.h"
#include "hyperion/nn/processes.h"
#include "hyperion/nn/region.h"
#include "hyperion/profile/span.h"

namespace hyperion::nn {
namespace {

// Tells the span which nodes of autograd were made until its own end, so that their backward is known to be of it.
class MadeNodes {
 public:
  explicit MadeNodes(profile::Span& span) : span_(span), first_(span.recorded() ? at::sequence_number::peek() : 0) {}
  ~MadeNodes() {
    if (span_.recorded())
      span_.set_nodes(static_cast<int64_t>(first_), static_cast<int64_t>(at::sequence_number::peek()));
  }
  MadeNodes(const MadeNodes&) = delete;
  MadeNodes& operator=(const MadeNodes&) = delete;

 private:
  profile::Span& span_;
  uint64_t first_;
};

// The child's forward on a copy of the pass as it is now: what a block leaves in the pass it leaves once.
RegionFunction repeat_of(Module& child, const Pass& pass) {
  Pass copy = pass;
  copy.recomputing = true;
  return [owner = child.weak_from_this().lock(), &child, copy](const std::vector<at::Tensor>& inputs) {
    profile::Span span("recompute", child.path());
    const MadeNodes nodes(span);
    Pass again = copy;
    return child.forward(inputs[0], again);
  };
}

}  // namespace

at::Tensor recompute_region(const std::vector<at::Tensor>& inputs, const RegionFunction& now, RegionFunction again) {
  if (!c10::GradMode::is_enabled()) return now(inputs);
  const auto region = std::make_shared<Region>(inputs, std::move(again));
  const SaveScope scope(*region);
  return now(inputs);
}

at::Tensor cheap_region(const std::vector<at::Tensor>& inputs, const RegionFunction& now, RegionFunction again) {
  const auto* top = SaveScope::top();
  auto* outputs = top == nullptr ? nullptr : dynamic_cast<CheapOutputs*>(&top->policy());
  if (outputs == nullptr || !c10::GradMode::is_enabled()) return now(inputs);
  const auto region = std::make_shared<Region>(inputs, std::move(again));
  const auto output = [&] {
    const SaveScope scope(*region);
    return now(inputs);
  }();
  const bool is_new =
      std::none_of(inputs.begin(), inputs.end(), [&](const auto& input) { return input.is_alias_of(output); });
  if (is_new) outputs->add(output, region);
  return output;
}

namespace {

at::Tensor run_as_told(Module& child, Unit unit, const at::Tensor& input, Pass& pass) {
  const bool block = unit == Unit::block;
  const int64_t index = block ? pass.blocks++ : 0;
  if (block && !pass.recomputing) enter_block();
  if (block && pass.apart) kernels::forget_bias_sums();
  const bool on = pass.recompute != Recompute::none && pass.cache == nullptr && c10::GradMode::is_enabled();
  if (!on || unit == Unit::plain) return child.forward(input, pass);
  const auto now = [&](const std::vector<at::Tensor>& inputs) { return child.forward(inputs[0], pass); };
  if (pass.recompute == Recompute::blocks) {
    HYPERION_CHECK(pass.recompute_every >= 1, "recomputation takes every block, or every n-th");
    if (!block || index % pass.recompute_every != 0) return child.forward(input, pass);
    return recompute_region({input}, now, repeat_of(child, pass));
  }
  if (!block) return cheap_region({input}, now, repeat_of(child, pass));
  CheapOutputs outputs;
  const SaveScope scope(outputs);
  return child.forward(input, pass);
}

}  // namespace

at::Tensor run_unit(Module& child, Unit unit, const at::Tensor& input, Pass& pass) {
  if (unit != Unit::block) return run_as_told(child, unit, input, pass);
  profile::Span span("block", child.path());
  const MadeNodes nodes(span);
  if (pass.block_hook == nullptr || pass.recomputing) return run_as_told(child, unit, input, pass);
  return pass.block_hook->run(child, input,
                              [&](const at::Tensor& given) { return run_as_told(child, unit, given, pass); });
}

}  // namespace hyperion::nn
