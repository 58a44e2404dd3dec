// A model of one's own in the whole program: a language model of gated causal convolutions (after Dauphin et al.,
// 2017). docs/add_a_model.md walks through it. Built as build/<preset>/bin/causal_convolution, it is `hyperion` with
// one family more:
//   causal_convolution train examples/causal_convolution.toml
#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sigmoid.h>

#include <nlohmann/json.hpp>

#include "hyperion/base/json.h"
#include "hyperion/cli/program.h"
#include "hyperion/models/config_reader.h"
#include "hyperion/models/registry.h"
#include "hyperion/models/tree.h"
#include "hyperion/nn/key_value_cache.h"
#include "hyperion/nn/layers.h"

namespace {

using namespace hyperion;
using nn::Init;

// 1. What the model is, read from and written to a config.json.
struct Config {
  int64_t layers, width, taps, context, vocabulary;
};

Config read_config(const std::string& text, const std::string& place) {
  const base::Json json = base::parse_json(text, place);
  const models::ConfigReader reader(json, place, "causal_convolution");
  return {reader.size("layers", 1024), reader.size("width", 1 << 18), reader.size("taps", 1024),
          reader.size("context", 1 << 24), reader.size("vocab_size", 1 << 22)};
}

std::string to_json(const Config& config) {
  return base::Json{{"model_type", "causal_convolution"},
                    {"layers", config.layers},
                    {"width", config.width},
                    {"taps", config.taps},
                    {"context", config.context},
                    {"vocab_size", config.vocabulary}}
      .dump();
}

// 2. What it costs, without making it.
strategy::ModelShape shape_of(const Config& config, int64_t) {
  const int64_t block = config.width * (config.taps + 2) + 2 * config.width * (config.width + 1) + 2 * config.width;
  strategy::ModelShape shape;
  shape.layers = config.layers, shape.width = config.width;
  shape.vocabulary = config.vocabulary, shape.context = config.context;
  shape.parameters = config.vocabulary * config.width + config.layers * block + 2 * config.width;
  shape.trained = shape.parameters;
  shape.forward_flops_token = shape.weight_flops_token = 2.0 * static_cast<double>(shape.parameters);
  shape.backward_flops_token = 2 * shape.forward_flops_token;
  return shape;
}

// 3. The modules. Children are called through run(), so that recomputation and whatever else wraps a unit can attach.
class Convolution final : public nn::Module {
 public:
  Convolution(int64_t width, int64_t taps, size_t layer) : width_(width), taps_(taps), layer_(layer) {
    weight_ = parameter("weight", {width, 1, taps}, Init::normal(0.2), {.decay = true});
    bias_ = parameter("bias", {width}, Init::filled(0));
  }
  at::Tensor forward(const at::Tensor& input, nn::Pass& pass) override {
    at::Tensor seen = input;  // in generation also the tokens before, kept where attention would keep its keys
    if (pass.cache != nullptr) {
      const auto one = input.unsqueeze(1);
      seen = pass.cache->extend(layer_, one, one).first.squeeze(1);
    }
    const auto padded = at::constant_pad_nd(seen.transpose(1, 2), {taps_ - 1, 0});
    const auto mixed =
        at::conv1d(padded, weight_, bias_, at::IntArrayRef{1}, at::IntArrayRef{0}, at::IntArrayRef{1}, width_)
            .transpose(1, 2);
    return mixed.narrow(1, mixed.size(1) - input.size(1), input.size(1));
  }

 private:
  int64_t width_, taps_;
  size_t layer_;
  at::Tensor weight_, bias_;
};

class Block final : public nn::Module {
 public:
  Block(const Config& config, size_t layer) {
    norm_ = register_module("norm", std::make_shared<nn::LayerNorm>(config.width));
    mix_ = register_module("mix", std::make_shared<Convolution>(config.width, config.taps, layer));
    gate_ = register_module("gate", linear(config.width));
    out_ = register_module("out", linear(config.width));
  }
  at::Tensor forward(const at::Tensor& input, nn::Pass& pass) override {
    const auto mixed = run(*mix_, run(*norm_, input, pass), pass);
    return input + run(*out_, mixed * at::sigmoid(run(*gate_, mixed, pass)), pass);
  }

 private:
  static std::shared_ptr<nn::Linear> linear(int64_t width) {
    return std::make_shared<nn::Linear>(width, width, /*with_bias=*/true, Init::normal(0.02));
  }
  std::shared_ptr<nn::LayerNorm> norm_;
  std::shared_ptr<Convolution> mix_;
  std::shared_ptr<nn::Linear> gate_, out_;
};

class CausalConvolution final : public models::Tree {
 public:
  explicit CausalConvolution(const Config& config) : config_(config) {
    table_ =
        register_module("table", std::make_shared<nn::Embedding>(config.vocabulary, config.width, Init::normal(0.02)));
    blocks_ = register_module("blocks", std::make_shared<nn::Stack>(config.layers, [&](int64_t i) {
                                return std::make_shared<Block>(config, i);
                              }));
    norm_ = register_module("norm", std::make_shared<nn::LayerNorm>(config.width));
  }
  at::Tensor forward(const at::Tensor& ids, nn::Pass& pass) override {
    const auto hidden = run(*norm_, run(*blocks_, run(*table_, ids, pass), pass), pass);
    return at::matmul(hidden, table_->weight().t());
  }
  std::string config_json() const override { return to_json(config_); }
  int64_t context() const override { return config_.context; }
  strategy::ModelShape shape(int64_t length) const override { return shape_of(config_, length); }

 private:
  Config config_;
  std::shared_ptr<nn::Embedding> table_;
  std::shared_ptr<nn::Stack> blocks_;
  std::shared_ptr<nn::LayerNorm> norm_;
};

std::unique_ptr<models::Model> make(const Config& config) { return std::make_unique<CausalConvolution>(config); }

}  // namespace

// 4. The family by its name, and the program around it.
int main(int argc, char** argv) {
  models::add_family(models::family<read_config, make>("causal_convolution", "CausalConvolution"));
  cli::program(argc, argv);
}
