#include "hyperion/bench/random_training.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <cmath>

#include "hyperion/base/files.h"
#include "hyperion/base/random.h"
#include "hyperion/base/signals.h"
#include "hyperion/data/fit_rows.h"
#include "hyperion/models/registry.h"
#include "hyperion/nn/meta.h"
#include "hyperion/train/config.h"
#include "hyperion/train/stepper.h"

namespace hyperion::bench {
namespace {

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

void adapt(models::Model& model, const train::RunConfig& config) {
  if (config.lora.rank > 0) model.adapters().add(kBenchAdapter, nn::config_of(config.lora), config.train.seed);
}

std::unique_ptr<models::Model> outline_of(const train::RunConfig& config) {
  const nn::MetaScope only_names;
  auto model = models::make_model(train::model_config(base::real_files(), config), "the model");
  adapt(*model, config);
  return model;
}

strategy::ModelShape shape_at(models::Model& model, const train::RunConfig& config, int64_t length) {
  return config.lora.rank > 0 ? models::adapted_shape(model, kBenchAdapter, length) : model.shape(length);
}

constexpr double kMeanDocument = 300, kDeviation = 2.0 / 3;  // the second as a part of the first
constexpr int64_t kShortestDocument = 2;                     // one token has nothing to learn

class RandomDocuments final : public data::Source {
 public:
  RandomDocuments(int64_t rows, int64_t length, int64_t vocabulary, uint64_t seed)
      : length_(length), vocabulary_(vocabulary), tokens_(base::stream_key(seed, "bench.tokens")) {
    const double mean = std::min(kMeanDocument, static_cast<double>(length) / 4);
    const double variance = std::log1p(kDeviation * kDeviation), middle = std::log(mean) - variance / 2;
    const auto key = base::stream_key(seed, "bench.documents");
    const int64_t room = length + 1;  // as in data/token_samples.cc
    std::vector<int64_t> sizes;
    for (int64_t all = 0; all / room <= rows;) {
      float normal = 0;
      base::fill_normal(key, sizes.size(), 1, 1, &normal);
      sizes.push_back(
          std::clamp<int64_t>(std::llround(std::exp(middle + std::sqrt(variance) * normal)), kShortestDocument, room));
      all += sizes.back();
    }
    const auto fitted = data::fit_rows(sizes, room);
    for (int64_t row = 0; row < fitted.count(); ++row) {
      if (row == fitted.emptiest) continue;  // of a large set one row, and here one of few
      auto& lengths = rows_.emplace_back();
      for (const int32_t document : fitted[row]) lengths.push_back(sizes[document]);
    }
  }

  int64_t samples() const override { return std::ssize(rows_); }
  int64_t vocabulary() const override { return vocabulary_; }
  bool pads() const override { return true; }

  void read(int64_t index, const data::TokenRow& row) const override {
    const auto first = static_cast<uint64_t>(index * (length_ + 1));
    size_t at = 0;
    const auto& documents = rows_[static_cast<size_t>(index)];
    for (size_t document = 0; document < documents.size(); ++document)
      for (const size_t end = at + static_cast<size_t>(documents[document]); at < end; ++at) {
        row.tokens[at] =
            static_cast<int64_t>(base::random_below(tokens_, first + at, static_cast<uint64_t>(vocabulary_)));
        row.segment_ids[at] = static_cast<int64_t>(document);
      }
    for (; at < row.tokens.size(); ++at) row.tokens[at] = 0, row.loss_mask[at] = 0, row.segment_ids[at] = -1;
  }

 private:
  int64_t length_, vocabulary_;
  base::StreamKey tokens_;
  std::vector<std::vector<int64_t>> rows_;  // tokens of each document
};

train::Batch packed_batch(train::RunConfig config, int64_t vocabulary, int64_t index) {
  config.train.epochs = 0;  // the documents are as many as are needed
  data::Split split;
  split.train = std::make_unique<RandomDocuments>(random_batches(config) * config.train.batch, config.train.length,
                                                  vocabulary, config.train.seed);
  return train::batch_at(split, config, index * config.train.batch);
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
  adapt(*model, config);
  return model;
}

bool packs_documents(const train::RunConfig& config) {
  return config.data.packing == data::Packing::whole && config.data.reset;
}

int64_t random_batches(const train::RunConfig& config) { return packs_documents(config) ? 16 : 3; }

train::Batch random_batch(const train::RunConfig& config, const strategy::ModelShape& shape, int64_t vocabulary,
                          int64_t index) {
  if (vocabulary == 0) vocabulary = shape.vocabulary;
  if (shape.context > 0 && packs_documents(config)) return packed_batch(config, vocabulary, index);
  const int64_t rows = config.train.batch, length = config.train.length;
  if (shape.context > 0) {
    const auto ids = at::randint(vocabulary, {rows, length + 1}, at::kLong);
    return {ids.narrow(1, 0, length).contiguous(), ids.narrow(1, 1, length).contiguous()};
  }
  return {at::randn({rows, 3, shape.image, shape.image}), at::randint(vocabulary, {rows}, at::kLong)};
}

std::vector<std::vector<int64_t>> document_lengths(const train::Batch& batch) {
  std::vector<std::vector<int64_t>> rows(static_cast<size_t>(batch.rows()));
  for (int64_t row = 0; row < batch.rows(); ++row) {
    const auto* starts = batch.segment_starts[row].const_data_ptr<int32_t>();
    const int32_t tokens = batch.lengths.const_data_ptr<int32_t>()[row];
    auto& lengths = rows[static_cast<size_t>(row)];
    for (int32_t token = 0; token < tokens; ++token) {
      if (starts[token] == token) lengths.push_back(0);
      ++lengths.back();
    }
  }
  return rows;
}

strategy::ModelShape random_shape(const train::RunConfig& config) {
  return shape_at(*outline_of(config), config, config.train.length);
}

StepWork work_of_step(const train::RunConfig& config) {
  const auto model = outline_of(config);
  const auto shape = shape_at(*model, config, config.train.length);
  const bool tokens = shape.context > 0;
  if (!tokens || !packs_documents(config)) {
    const auto units = static_cast<double>(config.train.batch * (tokens ? config.train.length : 1));
    return {tokens ? units : 0, units * shape.flops_token()};
  }
  StepWork work;
  const int64_t batches = random_batches(config);
  for (int64_t i = 0; i < batches; ++i)
    for (const auto& row : document_lengths(random_batch(config, shape, 0, i)))
      for (const int64_t length : row) {
        const double part = static_cast<double>(length) / static_cast<double>(batches);
        work.tokens += part, work.flops += part * shape_at(*model, config, length).flops_token();
      }
  return work;
}

struct RandomTraining::Last {
  train::StepResult result;
};

RandomTraining::RandomTraining(const train::RunConfig& config, c10::Device device, int64_t vocabulary)
    : model_(random_model(config, device)),
      shape_(shape_at(*model_, config, config.train.length)),
      stepper_(std::make_unique<train::Stepper>(*model_, config, device)),
      last_(std::make_unique<Last>()) {
  for (int64_t i = 0; i < random_batches(config); ++i)
    batches_.push_back(train::to_device(random_batch(config, shape_, vocabulary, i), device,
                                        train::compute_type(config.train.precision)));
}

RandomTraining::~RandomTraining() = default;

void RandomTraining::step() {
  NoMarks none;
  step(none);
}

void RandomTraining::step(profile::StepTimer& timer) {
  base::throw_if_stopped("running training steps");
  const auto& batch = batches_[static_cast<size_t>(steps_ % batches())];
  last_->result = stepper_->run(batch, ++steps_, kLearningRate, timer);
}

int64_t RandomTraining::batches() const { return std::ssize(batches_); }

double RandomTraining::loss() const { return last_->result.loss.item<double>(); }

bool RandomTraining::records() const { return stepper_->records(); }
const nn::Fp8Linears* RandomTraining::fp8() const { return stepper_->fp8(); }

}  // namespace hyperion::bench
