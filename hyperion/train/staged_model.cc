#include "hyperion/train/staged_model.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/parallel/processes.h"
#include "hyperion/train/step_stages.h"

namespace hyperion::train {
namespace {

class StagedModel final : public models::Model {
 public:
  StagedModel(models::Model& model, const StepStages& stages, parallel::Processes& processes, LogitsGo logits)
      : model_(model), stages_(stages), processes_(processes), go_(logits) {}
  ~StagedModel() override { sent_.wait(); }

  at::Tensor logits(const at::Tensor& input, nn::Pass& pass) override {
    pass.shards = processes_.shards(), pass.experts = processes_.experts();
    const auto logits = stages_.whole() ? model_.logits(input, pass) : through_stages(input, pass);
    if (go_ == LogitsGo::to_all) return stages_.whole() ? logits : told(logits);
    return pass.shards != nullptr && pass.shards->index() > 0 ? at::Tensor() : logits;
  }

  models::Input input() const override { return model_.input(); }
  std::vector<models::Parameter> parameters() override { return model_.parameters(); }
  std::vector<models::Buffer> buffers() override { return model_.buffers(); }
  std::vector<at::Tensor> held() override { return model_.held(); }
  void initialise(uint64_t seed) override { model_.initialise(seed); }
  void to(at::Device device, at::ScalarType type) override { model_.to(device, type); }
  nn::Adapters& adapters() override { return model_.adapters(); }
  void quantize() override { model_.quantize(); }
  std::string config_json() const override { return model_.config_json(); }
  int64_t context() const override { return model_.context(); }
  strategy::ModelShape shape(int64_t length) const override { return model_.shape(length); }

 private:
  static int other(const comm::Group& link) { return 1 - link.rank(); }

  at::Tensor through_stages(const at::Tensor& input, nn::Pass& pass) {
    at::Tensor logits, before;  // what the stage before gave, where that lies here too
    for (const int64_t number : stages_.own()) {
      const auto& stage = stages_.stage(number);
      const auto& links = processes_.links().of(number);
      at::Tensor hidden = before.defined() ? std::exchange(before, {}) : input;
      if (!stage.first && !stages_.is_own(number - 1)) {
        hidden =
            at::empty(stages_.hidden_shape(input, /*training=*/false), model_.parameters().front().tensor.options());
        links.states_in->receive(hidden, other(*links.states_in), 0, "hidden states").wait();
      }
      const auto given = models::run_stage(*model_.parts(), stage, {hidden}, /*targets=*/{}, pass).states;
      if (stage.last) {
        logits = given;
        continue;
      }
      if (stages_.is_own(number + 1)) {
        before = given;
        continue;
      }
      sent_.wait();
      sending_ = given.contiguous();
      sent_ = links.states_out->send(sending_, other(*links.states_out), 0, "hidden states");
    }
    return logits;
  }

  // By the last process to all: first how large they are.
  at::Tensor told(at::Tensor logits) {
    constexpr int64_t kMostSizes = 4;
    auto& group = *processes_.stages();
    const auto last = static_cast<int>(stages_.last_process());
    const auto sizes = at::zeros({kMostSizes}, at::kLong);
    auto* size = sizes.mutable_data_ptr<int64_t>();
    if (logits.defined()) {
      HYPERION_CHECK(logits.dim() <= kMostSizes, "logits have few dimensions");
      std::copy(logits.sizes().begin(), logits.sizes().end(), size);
      logits = logits.contiguous();
    }
    const auto options = model_.parameters().front().tensor.options().requires_grad(false);
    const auto there = sizes.to(options.device());
    group.broadcast(there, last, "logits").wait();
    const auto known = there.cpu();
    std::vector<int64_t> shape;
    for (int64_t i = 0; i < kMostSizes && known.const_data_ptr<int64_t>()[i] > 0; ++i)
      shape.push_back(known.const_data_ptr<int64_t>()[i]);
    if (!logits.defined()) logits = at::empty(shape, options);
    group.broadcast(logits, last, "logits").wait();
    return logits;
  }

  models::Model& model_;
  const StepStages& stages_;
  parallel::Processes& processes_;
  LogitsGo go_;
  at::Tensor sending_;
  comm::Pending sent_;
};

}  // namespace

std::unique_ptr<models::Model> make_staged_model(models::Model& model, const StepStages& stages,
                                                 parallel::Processes& processes, LogitsGo logits) {
  return std::make_unique<StagedModel>(model, stages, processes, logits);
}

}  // namespace hyperion::train
