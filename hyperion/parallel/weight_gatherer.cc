#include "hyperion/parallel/weight_gatherer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include "hyperion/nn/module.h"
#include "hyperion/parallel/quantized.h"

// Two ways to have whole weights when a pass needs them. Stages 1 and 2 keep them whole and only update pieces: after
// the update all buckets are gathered, beside the reading of the next batch, and the next pass waits for them. Stage 3
// keeps pieces: a block's weights are gathered before it runs, those of the next `prefetch` blocks behind it, and given
// back when it has run; backward the same in reverse, called by two functions of autograd that stand around the block,
// one on its output (the first that its backward meets) and one on its input (the last). The tensors stay the same
// throughout, only their memory comes and goes, so that autograd's saved weights are good again when it is back.
//
// ZeRO++: a first gather of a step leaves each process a part of its node's copy, so that the backward's gathers stay
// within the node; and what goes between nodes may go in 8 bits.
namespace hyperion::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kWeights = "weights";

struct Call final : torch::CustomClassHolder {
  explicit Call(std::function<void()> made) : make(std::move(made)) {}
  std::function<void()> make;
};

// Passes a tensor on, and calls when its gradient comes back.
struct InBackward : torch::autograd::Function<InBackward> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& tensor, const c10::intrusive_ptr<Call>& call) {
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return tensor;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto capsule = context->saved_data["call"].toCapsule();
    static_cast<Call&>(*capsule).make();
    return {gradients[0], {}};
  }
};

at::Tensor then_in_backward(const at::Tensor& tensor, std::function<void()> call) {
  return InBackward::apply(tensor, c10::make_intrusive<Call>(std::move(call)));
}

class GatherAfterUpdate final : public WeightGatherer {
 public:
  GatherAfterUpdate(FlatWeights& weights, comm::Group& group)
      : weights_(weights), group_(group), gathering_(weights.buffers().size()) {}
  void begin_pass() override { settle(); }
  void hold() override { settle(); }
  void settle() override {
    for (auto& gathering : gathering_) gathering.wait();
  }
  void updated() override {
    for (size_t i = 0; i < gathering_.size(); ++i)
      gathering_[i] = group_.all_gather(weights_.buffers()[i].full, weights_.buffers()[i].piece, kWeights);
  }

 private:
  FlatWeights& weights_;
  comm::Group& group_;
  std::vector<comm::Pending> gathering_;
};

class GatherByBlock final : public WeightGatherer, public nn::BlockHook {
 public:
  GatherByBlock(FlatWeights& weights, comm::Group& group, const GatherOptions& options, std::function<void(int)> left)
      : weights_(weights),
        group_(group),
        options_(options),
        left_(std::move(left)),
        states_(weights.buffers().size()) {}

  nn::BlockHook* block_hook() override { return this; }

  void begin_pass() override {
    ahead(0);
    for (int64_t i = 1; i <= options_.prefetch; ++i) ahead(static_cast<int>(i));
    need(0);
  }

  void end_pass() override {
    for (size_t i = 0; i < states_.size(); ++i) release(i);
  }

  void updated() override {
    for (auto& state : states_) state.secondary.reset();
  }

  void hold() override {
    ++held_;
    for (size_t i = 0; i < states_.size(); ++i) fetch(i), states_[i].gathering.wait();
  }

  void let_go() override {
    --held_;
    end_pass();
  }

  at::Tensor run(nn::Module& block, const at::Tensor& input, const Forward& forward) override {
    const int unit = weights_.unit_of(block);
    if (unit == 0) return forward(input);
    need(unit);
    for (int64_t i = 1; i <= options_.prefetch; ++i) ahead(unit + static_cast<int>(i));
    if (!at::GradMode::is_enabled()) {
      auto output = forward(input);
      release_unit(unit);
      return output;
    }
    // The output's backward comes before any of the block's, the input's after all of them.
    const auto output = forward(then_in_backward(input, [this, unit] { leave_backward(unit); }));
    if (unit != weights_.last_unit()) release_unit(unit);  // the last is the backward's first
    return then_in_backward(output, [this, unit] { enter_backward(unit); });
  }

 private:
  struct State {
    bool present = false;
    comm::Pending gathering;
    at::Tensor secondary;  // our part of the node's copy; undefined until this step's first gather is done with
  };

  void enter_backward(int unit) {
    need(unit);
    for (int64_t i = 1; i <= options_.prefetch; ++i)
      if (unit - i > 0) ahead(unit - static_cast<int>(i));
  }

  void leave_backward(int unit) {
    left_(unit);
    release_unit(unit);
  }

  template <class Each>
  void of_unit(int unit, Each each) {
    for (size_t i = 0; i < states_.size(); ++i)
      if (weights_.buffers()[i].plan.unit == unit) each(i);
  }
  void ahead(int unit) {
    of_unit(unit, [this](size_t i) { fetch(i); });
  }
  void need(int unit) {
    ahead(unit);
    of_unit(unit, [this](size_t i) { states_[i].gathering.wait(); });
  }
  void release_unit(int unit) {
    of_unit(unit, [this](size_t i) { release(i); });
  }

  void fetch(size_t index) {
    State& state = states_[index];
    const FlatBuffer& buffer = weights_.buffers()[index];
    if (state.present) return;
    take_memory(buffer.full);
    if (state.secondary.defined()) {
      state.gathering = options_.secondary->all_gather(buffer.full, state.secondary, kWeights);
    } else if (options_.quantized && at::isFloatingType(buffer.plan.type)) {
      state.gathering = gather_quantized(group_, buffer.full, buffer.piece, kWeights);
    } else {
      state.gathering = group_.all_gather(buffer.full, buffer.piece, kWeights);
    }
    state.present = true;
  }

  void release(size_t index) {
    State& state = states_[index];
    const FlatBuffer& buffer = weights_.buffers()[index];
    if (!state.present || held_ > 0) return;
    state.gathering.wait();
    if (options_.secondary != nullptr && !state.secondary.defined() && at::GradMode::is_enabled()) {
      const int64_t part = buffer.plan.length / options_.secondary->size();
      state.secondary = buffer.full.narrow(0, options_.secondary->rank() * part, part).clone();
    }
    give_memory_back(buffer.full);
    state.present = false;
  }

  FlatWeights& weights_;
  comm::Group& group_;
  GatherOptions options_;
  std::function<void(int)> left_;
  std::vector<State> states_;  // by buffer
  int held_ = 0;
};

}  // namespace

std::unique_ptr<WeightGatherer> make_gatherer(FlatWeights& weights, comm::Group& group, const GatherOptions& options,
                                              std::function<void(int unit)> left) {
  switch (weights.held()) {
    case Held::apart:
      return std::make_unique<WeightGatherer>();
    case Held::flat:
      return std::make_unique<GatherAfterUpdate>(weights, group);
    case Held::pieces:
      return std::make_unique<GatherByBlock>(weights, group, options, std::move(left));
  }
  return nullptr;
}

}  // namespace hyperion::parallel
