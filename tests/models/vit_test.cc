#include "hyperion/models/vit.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>

#include "hyperion/base/error.h"
#include "hyperion/models/registry.h"
#include "tests/support/devices.h"

namespace hyperion::models {
namespace {

using testing::OnDevice;
using testing::relative_error;

VitConfig small_vit() {
  VitConfig config;
  config.layers = 2, config.heads = 2, config.width = 24, config.inner = 40, config.classes = 7;
  return config;
}

std::unique_ptr<Model> made(const VitConfig& config, at::Device device) {
  auto model = make_vit(config);
  model->initialise(5);
  model->to(device, at::kFloat);
  return model;
}

class Vit : public OnDevice {
 protected:
  at::Tensor images(int64_t batch, int64_t height, int64_t width) {
    return at::randn({batch, 3, height, width}, at::TensorOptions().device(GetParam()));
  }
  at::Tensor labels(int64_t batch) {
    return at::randint(0, 7, {batch}, at::TensorOptions().dtype(at::kLong)).to(GetParam());
  }
};

TEST_P(Vit, starts_at_the_loss_of_guessing_and_takes_images_of_any_size) {
  auto model = made(small_vit(), GetParam());
  for (const auto& [height, width] : {std::pair(32, 32), std::pair(48, 20), std::pair(4, 5)}) {
    nn::Pass pass;
    const auto logits = model->logits(images(8, height, width), pass);
    EXPECT_NEAR(at::cross_entropy_loss(logits, labels(8)).item<double>(), std::log(7.0), 0.1 * std::log(7.0));
  }
  nn::Pass pass;
  EXPECT_THROW(model->logits(images(1, 32, 3), pass), base::ConfigError);
  EXPECT_THROW(model->logits(images(1, 32, 32).narrow(1, 0, 2), pass), base::ConfigError);
}

TEST_P(Vit, fused_and_reference_passes_agree_in_value_and_gradient) {
  auto model = made(small_vit(), GetParam());
  const auto input = images(3, 36, 28), target = labels(3);
  std::vector<std::vector<at::Tensor>> results;
  for (const bool reference : {false, true}) {
    nn::Pass pass;
    pass.reference = reference;
    const auto loss = at::cross_entropy_loss(model->logits(input, pass), target);
    loss.backward();
    results.push_back({loss.detach()});
    for (auto& parameter : model->parameters()) {
      results.back().push_back(parameter.tensor.grad().clone());
      parameter.tensor.mutable_grad().reset();
    }
  }
  const auto parameters = model->parameters();
  for (size_t i = 0; i < results[0].size(); ++i) {
    if (i > 0 && parameters[i - 1].name.ends_with("k_proj.bias")) continue;  // zero but for rounding
    EXPECT_LT(relative_error(results[0][i], results[1][i]), 1e-4) << i;
  }
}

TEST_P(Vit, each_dropout_needs_training_and_follows_the_step) {
  for (const bool of_attention : {false, true}) {
    auto config = small_vit();
    (of_attention ? config.attention_dropout : config.dropout) = 0.2;
    auto model = made(config, GetParam());
    const auto input = images(2, 32, 32);
    const auto logits = [&](bool training, uint32_t step) {
      nn::Pass pass;
      pass.training = training, pass.step = step;
      return model->logits(input, pass).detach();
    };
    EXPECT_TRUE(logits(false, 1).equal(logits(false, 2)));
    EXPECT_TRUE(logits(true, 1).equal(logits(true, 1)));
    EXPECT_FALSE(logits(true, 1).equal(logits(true, 2)));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Vit, ::testing::ValuesIn(testing::devices()), testing::device_name);

TEST(VitShape, has_the_published_sizes_and_costs) {
  struct Published {
    int64_t layers, heads, width, patch, parameters;
    double products;  // in thousand millions, an image of 224 pixels a side
  };
  for (const auto& each :
       {Published{12, 12, 768, 16, 86'567'656, 17.56}, Published{24, 16, 1024, 16, 304'326'632, 61.56},
        Published{32, 16, 1280, 14, 632'045'800, 167.3}}) {
    VitConfig config;
    config.layers = each.layers, config.heads = each.heads, config.width = each.width, config.inner = 4 * each.width;
    config.image_height = config.image_width = 224, config.patch_height = config.patch_width = each.patch;
    config.classes = 1000;
    const auto shape = shape_of(config, 1);
    EXPECT_EQ(shape.parameters, each.parameters);
    EXPECT_NEAR(shape.forward_flops_token / 2e9, each.products, 0.003 * each.products);
  }
}

TEST(VitShape, counts_the_parameters_of_the_model) {
  for (const bool bias : {true, false}) {
    auto config = small_vit();
    config.query_key_value_bias = bias, config.image_height = 44, config.patch_width = 5;
    int64_t count = 0;
    for (const auto& parameter : make_vit(config)->parameters()) count += parameter.tensor.numel();
    EXPECT_EQ(shape_of(config, 1).parameters, count);
  }
}

TEST(VitShape, of_an_adapter_counts_every_patch_and_the_head_once) {
  const auto config = small_vit();
  auto model = make_vit(config);
  nn::LoraConfig lora;
  lora.rank = 2;
  model->adapters().add("mine", lora, 1);
  const auto whole = model->shape(1), shape = adapted_shape(*model, "mine", 1);
  const int64_t block = 2 * (4 * 2 * config.width + 2 * (config.width + config.inner)),
                head = 2 * (config.width + config.classes);
  EXPECT_EQ(shape.trained, config.layers * block + head);
  const auto added = static_cast<double>(tokens_of(config) * config.layers * block + head);
  EXPECT_DOUBLE_EQ(shape.forward_flops_token, whole.forward_flops_token + 2 * added);
  EXPECT_DOUBLE_EQ(shape.backward_flops_token, whole.backward_flops_token - whole.weight_flops_token + 4 * added);
}

TEST(VitConfigFile, comes_back_as_it_was_written) {
  auto config = small_vit();
  config.image_width = 48, config.patch_height = 8, config.dropout = 0.1, config.query_key_value_bias = false;
  config.labels = {"a", "b", "c", "d", "e", "f", "a"};
  const auto text = to_json(config);
  EXPECT_EQ(to_json(vit_from_json(text, "here")), text);
  EXPECT_EQ(make_model(text, "here")->config_json(), text);
  EXPECT_EQ(vit_from_json(text, "here").labels, config.labels);
}

TEST(VitConfigFile, is_refused_where_it_says_another_model_or_nonsense) {
  for (const char* change :
       {R"("hidden_act": "relu")", R"("image_size": [32])", R"("image_size": [32, -1])", R"("patch_size": 64)",
        R"("num_attention_heads": 5)", R"("head_dim": 3)", R"("id2label": {"0": "a", "2": "b"})",
        R"("id2label": {"0": "a"})", R"("num_labels": 3, "id2label": {"0": "a", "1": "b"})",
        R"("problem_type": "regression")", R"("hidden_dropout_prob": 1)", R"("layer_norm_eps": 0)"}) {
    const std::string text =
        std::string(R"({"model_type": "vit", "hidden_size": 24, "num_attention_heads": 4, "image_size": 32, )") +
        change + "}";
    EXPECT_THROW(vit_from_json(text, "here"), base::CorruptError) << text;
  }
}

}  // namespace
}  // namespace hyperion::models
