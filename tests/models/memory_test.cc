#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "hyperion/kernels/cross_entropy.h"
#include "hyperion/models/recipe.h"
#include "hyperion/models/registry.h"
#include "hyperion/nn/offload.h"
#include "hyperion/nn/saved_bytes.h"
#include "tests/support/devices.h"

namespace hyperion::models {
namespace {

// What saves memory must not change a bit; so what could (atomic additions on a GPU) is off here.
class Memory : public testing::OnDevice {
 protected:
  void SetUp() override { device::use_deterministic_algorithms(); }
  void TearDown() override { at::globalContext().setDeterministicAlgorithms(false, false); }
};

std::unique_ptr<Model> made(const char* config) { return make_model(config, "test"); }

std::vector<std::unique_ptr<Model>> one_of_each() {
  std::vector<std::unique_ptr<Model>> list;
  list.push_back(made(R"({"model_type": "gpt2", "n_layer": 5, "n_head": 3, "n_embd": 48, "n_positions": 40,
                          "vocab_size": 300, "resid_pdrop": 0.2})"));
  list.push_back(made(R"({"model_type": "llama", "num_hidden_layers": 5, "num_attention_heads": 6,
                          "num_key_value_heads": 2, "head_dim": 8, "hidden_size": 36, "intermediate_size": 52,
                          "max_position_embeddings": 40, "vocab_size": 300})"));
  list.push_back(made(R"({"model_type": "qwen3", "num_hidden_layers": 4, "num_attention_heads": 4,
                          "num_key_value_heads": 2, "head_dim": 8, "hidden_size": 36, "intermediate_size": 52,
                          "max_position_embeddings": 40, "vocab_size": 300, "use_sliding_window": true,
                          "sliding_window": 7, "max_window_layers": 2})"));
  list.push_back(made(R"({"model_type": "mixtral", "num_hidden_layers": 4, "num_attention_heads": 4,
                          "num_key_value_heads": 2, "hidden_size": 32, "intermediate_size": 24,
                          "max_position_embeddings": 40, "vocab_size": 300, "num_local_experts": 5,
                          "num_experts_per_tok": 2, "output_router_logits": true})"));
  list.push_back(made(R"({"model_type": "vit", "num_hidden_layers": 4, "num_attention_heads": 2, "hidden_size": 32,
                          "intermediate_size": 64, "image_size": 24, "patch_size": 8, "num_labels": 7,
                          "hidden_dropout_prob": 0.1})"));
  list.push_back(made(R"({"model_type": "resnet", "layer_type": "basic", "depths": [2, 2], "hidden_sizes": [16, 24],
                          "embedding_size": 8, "image_size": 24, "num_labels": 7})"));
  return list;
}

struct Choice {
  nn::Recompute recompute = nn::Recompute::none;
  int64_t every = 1;
  bool offload = false;
};

struct Result {
  std::vector<at::Tensor> tensors;  // loss, gradients, and what a forward leaves in buffers
  int64_t held, moved;              // bytes of activations between forward and backward
};

struct Sample {
  at::Tensor input, targets;
};

Sample sample_of(const Model& model, at::Device device) {
  if (model.input() == Input::tokens) {
    const auto ids = at::randint(0, 300, {3, 33}, at::kLong).to(device);
    return {ids, ids.roll(1, 1)};
  }
  return {at::randn({3, 3, 24, 24}).to(device), at::randint(0, 7, {3}, at::kLong).to(device)};
}

Result trained(Model& model, const Sample& sample, const Choice& choice) {
  nn::Pass pass;
  pass.training = true, pass.seed = 3, pass.step = 4, pass.micro_batch = 1;
  pass.recompute = choice.recompute, pass.recompute_every = choice.every;
  std::vector<at::Tensor> before;
  for (const auto& buffer : model.buffers()) before.push_back(buffer.tensor.clone());
  nn::SavedBytesMeter meter{nn::Residents(model.held())};
  nn::OffloadPolicy offload({.least_bytes = 0}, nn::Residents(model.held()));
  at::Tensor loss;
  {
    const nn::SaveScope metered(meter);
    std::optional<nn::SaveScope> offloaded;
    if (choice.offload) offloaded.emplace(offload);
    loss = kernels::cross_entropy(model.logits(sample.input, pass), sample.targets);
    if (pass.auxiliary_loss.defined()) loss = loss.add(pass.auxiliary_loss);
  }
  Result result{{loss.detach().clone()}, meter.bytes(), offload.bytes()};
  loss.backward();
  for (const auto& parameter : model.parameters()) {
    result.tensors.push_back(parameter.tensor.grad().clone());
    parameter.tensor.mutable_grad().reset();
  }
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < before.size(); ++i) {
    result.tensors.push_back(model.buffers()[i].tensor.clone());
    model.buffers()[i].tensor.copy_(before[i]);
  }
  return result;
}

TEST_P(Memory, saved_by_any_means_leaves_loss_gradients_and_statistics_as_they_are) {
  for (const auto& model : one_of_each()) {
    SCOPED_TRACE(model->config_json());
    model->initialise(5);
    model->to(GetParam(), at::kFloat);
    const auto sample = sample_of(*model, GetParam());
    const auto none = trained(*model, sample, {});
    for (const bool offload : {false, true})
      for (const auto& [recompute, every] :
           std::vector<std::pair<nn::Recompute, int64_t>>{{nn::Recompute::none, 1},
                                                          {nn::Recompute::blocks, 1},
                                                          {nn::Recompute::blocks, 2},
                                                          {nn::Recompute::selective, 1}}) {
        const auto saving = trained(*model, sample, {recompute, every, offload});
        for (size_t i = 0; i < none.tensors.size(); ++i)
          EXPECT_TRUE(saving.tensors[i].equal(none.tensors[i]))
              << "tensor " << i << ", recompute " << static_cast<int>(recompute) << " " << every << " " << offload;
        EXPECT_EQ(saving.moved > 0, offload);
        // ResNet's selective parts are its blocks' norms alone, and those it does not mark.
        if (recompute != nn::Recompute::selective || offload) {
          EXPECT_EQ(saving.held < none.held, offload || recompute != nn::Recompute::none);
        }
      }
  }
}

TEST_P(Memory, of_whole_blocks_is_little_more_than_their_inputs) {
  for (const auto& model : one_of_each()) {
    SCOPED_TRACE(model->config_json());
    model->initialise(5);
    model->to(GetParam(), at::kFloat);
    const auto sample = sample_of(*model, GetParam());
    const auto none = trained(*model, sample, {}), full = trained(*model, sample, {nn::Recompute::blocks});
    EXPECT_LT(static_cast<double>(full.held), 0.55 * static_cast<double>(none.held));
  }
}

TEST_P(Memory, kept_for_the_backward_is_what_the_shape_says) {
  const std::pair<const char*, double> cases[] = {
      {R"({"model_type": "gpt2", "n_layer": 3, "n_head": 4, "n_embd": 256, "n_positions": 64, "vocab_size": 300})",
       0.05},
      {R"({"model_type": "llama", "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
           "hidden_size": 256, "intermediate_size": 600, "max_position_embeddings": 64, "vocab_size": 300})",
       0.12},
      {R"({"model_type": "mixtral", "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
           "hidden_size": 256, "intermediate_size": 200, "max_position_embeddings": 64, "vocab_size": 300,
           "num_local_experts": 4, "num_experts_per_tok": 2})",
       0.15},
      {R"({"model_type": "vit", "num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 256,
           "intermediate_size": 512, "image_size": 24, "patch_size": 4, "num_labels": 7})",
       0.12},
      {R"({"model_type": "resnet", "layer_type": "bottleneck", "depths": [2, 2], "hidden_sizes": [64, 128],
           "embedding_size": 32, "image_size": 24, "num_labels": 7})",
       0.2}};
  for (const auto& [config, tolerance] : cases) {
    SCOPED_TRACE(config);
    const auto model = made(config);
    model->initialise(5);
    model->to(GetParam(), at::kFloat);
    const auto sample = sample_of(*model, GetParam());
    const auto shape = model->shape(33);
    const double told = shape.activation_bytes(shape.context > 0 ? 3 * 33 : 3, 4);
    EXPECT_NEAR(static_cast<double>(trained(*model, sample, {}).held) / told, 1, tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Memory, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion::models
