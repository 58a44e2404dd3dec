#include "hyperion/bench/random_training.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include "hyperion/base/files.h"
#include "hyperion/base/signals.h"
#include "hyperion/models/registry.h"
#include "hyperion/train/config.h"
#include "hyperion/train/stepper.h"

namespace hyperion::bench {
namespace {

constexpr int kBatches = 3;
constexpr double kLearningRate = 1e-4;
constexpr const char* kBenchAdapter = "bench";

void fill(models::Model& model) {
  const at::NoGradGuard no_grad;
  for (auto& parameter : model.parameters()) {
    if (parameter.tensor.dim() >= 2) {
      parameter.tensor.normal_(0, 0.02);
    } else {
      parameter.tensor.fill_(parameter.name.ends_with("weight") ? 1 : 0);
    }
  }
}

class NoMarks final : public profile::StepTimer {
 public:
  void mark(profile::Phase) override {}
  profile::PhaseTimes milliseconds() override { return {}; }
};

}  // namespace

std::unique_ptr<models::Model> random_model(const train::RunConfig& config, c10::Device device) {
  auto model = models::make_model(train::model_config(base::real_files(), config), "the model");
  const bool adapted = config.lora.rank > 0;
  model->to(device, adapted ? train::compute_type(config.train.precision) : at::kFloat);
  fill(*model);
  if (config.model.quantize == models::Quantize::nf4) model->quantize();
  if (adapted) model->adapters().add(kBenchAdapter, nn::config_of(config.lora), config.train.seed);
  return model;
}

train::Batch random_batch(const train::RunConfig& config, const strategy::ModelShape& shape, int64_t vocabulary) {
  if (vocabulary == 0) vocabulary = shape.vocabulary;
  const int64_t rows = config.train.batch, length = config.train.length;
  if (shape.context > 0) {
    const auto ids = at::randint(vocabulary, {rows, length + 1}, at::kLong);
    return {ids.narrow(1, 0, length).contiguous(), ids.narrow(1, 1, length).contiguous()};
  }
  return {at::randn({rows, 3, shape.image, shape.image}), at::randint(vocabulary, {rows}, at::kLong)};
}

struct RandomTraining::Last {
  train::StepResult result;
};

RandomTraining::RandomTraining(const train::RunConfig& config, c10::Device device, int64_t vocabulary)
    : config_(config),
      model_(random_model(config, device)),
      shape_(config.lora.rank > 0 ? models::adapted_shape(*model_, kBenchAdapter, config.train.length)
                                  : model_->shape(config.train.length)),
      stepper_(std::make_unique<train::Stepper>(*model_, config, device)),
      last_(std::make_unique<Last>()) {
  for (int i = 0; i < kBatches; ++i)
    batches_.push_back(train::to_device(random_batch(config, shape_, vocabulary), device,
                                        train::compute_type(config.train.precision)));
}

RandomTraining::~RandomTraining() = default;

void RandomTraining::step() {
  NoMarks none;
  step(none);
}

void RandomTraining::step(profile::StepTimer& timer) {
  base::throw_if_stopped("running training steps");
  const auto& batch = batches_[static_cast<size_t>(steps_ % kBatches)];
  last_->result = stepper_->run(batch, ++steps_, kLearningRate, timer);
}

double RandomTraining::loss() const { return last_->result.loss.item<double>(); }

bool RandomTraining::records() const { return stepper_->records(); }
const nn::Fp8Linears* RandomTraining::fp8() const { return stepper_->fp8(); }

double RandomTraining::flops() const {
  const int64_t units = config_.train.batch * (shape_.context > 0 ? config_.train.length : 1);
  return shape_.flops_token() * static_cast<double>(units);
}

}  // namespace hyperion::bench
