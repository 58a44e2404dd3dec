#include "hyperion/models/moe.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "hyperion/base/error.h"
#include "hyperion/base/random.h"
#include "hyperion/models/decode.h"
#include "hyperion/models/registry.h"
#include "hyperion/nn/key_value_cache.h"
#include "tests/support/devices.h"

namespace hyperion::models {
namespace {

using testing::OnDevice;
using testing::relative_error;

MoeConfig mixtral() {
  MoeConfig config;
  auto& decoder = config.decoder;
  decoder.layers = 3, decoder.heads = 6, decoder.key_value_heads = 2, decoder.head_width = 8, decoder.width = 40;
  decoder.context = 40, decoder.vocabulary = 300, decoder.inner = config.expert_inner = 48;
  config.experts = 5, config.balance = true, config.balance_coefficient = 0.1;
  return config;
}

MoeConfig qwen2_moe() {
  MoeConfig config = mixtral();
  config.decoder.model_type = "qwen2_moe", config.decoder.query_key_value_bias = true;
  config.expert_inner = 24, config.shared_inner = 32, config.normalised = false, config.dense_layers = {1};
  return config;
}

std::unique_ptr<Model> made(const MoeConfig& config, at::Device device, at::ScalarType type = at::kFloat) {
  auto model = make_moe(config);
  model->initialise(5);
  model->to(device, type);
  return model;
}

class Moe : public OnDevice {
 protected:
  at::Tensor ids(int64_t batch, int64_t length) {
    return at::randint(0, 300, {batch, length}, at::TensorOptions().dtype(at::kLong)).to(GetParam());
  }
};

TEST_P(Moe, starts_at_the_loss_of_guessing_and_even_routing) {
  for (const auto& config : {mixtral(), qwen2_moe()}) {
    auto model = made(config, GetParam());
    nn::Pass pass;
    const auto logits = model->logits(ids(8, 40), pass);
    const double loss = at::cross_entropy_loss(logits.view({-1, 300}), ids(8, 40).view({-1})).item<double>();
    EXPECT_NEAR(loss, std::log(300.0), 0.02 * std::log(300.0));
    EXPECT_NEAR(pass.auxiliary_loss.item<double>(), 0.1 * 2, 0.02);
  }
}

TEST_P(Moe, a_cache_gives_the_same_logits_token_by_token) {
  auto model = made(qwen2_moe(), GetParam());
  const auto input = ids(2, 17);
  nn::Pass whole, parts;
  nn::KeyValueCache cache;
  parts.cache = &cache;
  const auto expected = model->logits(input, whole);
  EXPECT_LT(relative_error(model->logits(input.narrow(1, 0, 9), parts), expected.narrow(1, 0, 9)), 1e-5);
  EXPECT_FALSE(parts.auxiliary_loss.defined());
  for (int64_t i = 9; i < 17; ++i)
    EXPECT_LT(relative_error(model->logits(input.narrow(1, i, 1), parts), expected.narrow(1, i, 1)), 1e-5);
}

// On a GPU in bf16 the fused pass multiplies all experts at once, the reference one after another. Every token takes
// every expert, so that rounding sends none elsewhere.
TEST_P(Moe, fused_and_reference_passes_agree_in_value_and_gradient) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const double capacity : {0.0, 1.0}) {
      auto config = qwen2_moe();
      config.choices = config.experts, config.capacity_factor = capacity;
      auto model = made(config, GetParam(), type);
      const auto input = ids(3, 33), target = ids(3, 33).view({-1});
      std::vector<std::vector<at::Tensor>> results;
      for (const bool reference : {false, true}) {
        nn::Pass pass;
        pass.training = true, pass.reference = reference;
        const auto logits = model->logits(input, pass).to(at::kFloat);
        const auto loss = at::cross_entropy_loss(logits.view({-1, 300}), target).add(pass.auxiliary_loss);
        loss.backward();
        results.push_back({loss.detach()});
        for (auto& parameter : model->parameters()) {
          results.back().push_back(parameter.tensor.grad().clone());
          parameter.tensor.mutable_grad().reset();
        }
      }
      for (size_t i = 0; i < results[0].size(); ++i)
        EXPECT_LT(relative_error(results[0][i], results[1][i]), type == at::kFloat ? 1e-4 : 0.05)
            << (i == 0 ? "loss" : model->parameters()[i - 1].name);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Moe, ::testing::ValuesIn(testing::devices()), testing::device_name);

TEST(MoeNames, are_those_of_published_folders_and_shape_counts_them) {
  const auto names_of = [](const MoeConfig& config) {
    auto model = make_moe(config);
    std::set<std::string> names;
    int64_t parameters = 0;
    for (const auto& p : model->parameters()) names.insert(p.name), parameters += p.tensor.numel();
    EXPECT_EQ(model->shape(40).parameters, parameters);
    return names;
  };
  const auto mixed = names_of(mixtral()), qwen = names_of(qwen2_moe());
  for (const char* name : {"block_sparse_moe.gate.weight", "block_sparse_moe.experts.0.w1.weight",
                           "block_sparse_moe.experts.4.w2.weight", "block_sparse_moe.experts.4.w3.weight"})
    EXPECT_TRUE(mixed.contains(std::string("model.layers.1.") + name)) << name;
  for (const char* name : {"mlp.gate.weight", "mlp.experts.4.down_proj.weight", "mlp.shared_expert.up_proj.weight",
                           "mlp.shared_expert_gate.weight", "self_attn.q_proj.bias"})
    EXPECT_TRUE(qwen.contains(std::string("model.layers.2.") + name)) << name;
  EXPECT_TRUE(qwen.contains("model.layers.1.mlp.down_proj.weight"));
}

TEST(MoeShape, counts_operations_of_the_chosen_experts_alone) {
  auto few = mixtral(), many = mixtral();
  many.experts = 10;
  const double router = 2.0 * 3 * 5 * 40;
  EXPECT_EQ(shape_of(many, 40).forward_flops_token, shape_of(few, 40).forward_flops_token + router);
  many = few, many.choices = 3;
  EXPECT_EQ(shape_of(many, 40).forward_flops_token - shape_of(few, 40).forward_flops_token, 2.0 * 3 * 3 * 40 * 48);
}

TEST(MoeShape, of_an_adapter_counts_the_chosen_experts_alone) {
  const auto config = mixtral();
  auto model = make_moe(config);
  nn::LoraConfig lora;
  lora.rank = 2, lora.targets = nn::layer_names("w1");
  model->adapters().add("mine", lora, 1);
  const auto shape = adapted_shape(*model, "mine", 40);
  const int64_t one = 2 * (config.decoder.width + config.expert_inner), layers = config.decoder.layers;
  EXPECT_EQ(shape.trained, layers * config.experts * one);
  EXPECT_DOUBLE_EQ(shape.forward_flops_token - model->shape(40).forward_flops_token,
                   2.0 * static_cast<double>(layers * config.choices * one));
}

TEST(MoeLoss, is_there_only_where_the_config_asks) {
  const auto input = at::randint(0, 300, {2, 9}, at::TensorOptions().dtype(at::kLong));
  const auto loss_of = [&](bool balance, double z) {
    auto config = mixtral();
    config.balance = balance, config.z_coefficient = z;
    nn::Pass pass;
    const auto model = made(config, at::kCPU);
    model->logits(input, pass);
    model->logits(input, pass);  // a pass used twice has the layers of the second alone
    EXPECT_EQ(pass.router_logits.size(), 3U);
    return pass.auxiliary_loss;
  };
  EXPECT_FALSE(loss_of(false, 0).defined());
  const double balance = loss_of(true, 0).item<double>(), z = loss_of(false, 0.5).item<double>();
  EXPECT_NEAR(z, 0.5 * std::pow(std::log(5.0), 2), 0.05);
  EXPECT_NEAR(loss_of(true, 0.5).item<double>(), balance + z, 1e-5);
}

TEST(MoeConfig, survives_its_json) {
  auto config = qwen2_moe();
  config.z_coefficient = 0.01, config.capacity_factor = 1.5, config.sparse_step = 2, config.decoder.tied = true;
  const auto back = qwen2_moe_from_json(to_json(config), "here");
  EXPECT_EQ(to_json(back), to_json(config));
  EXPECT_EQ(back.dense_layers, config.dense_layers);
  EXPECT_EQ(back.capacity_factor, 1.5);
  EXPECT_EQ(to_json(mixtral_from_json(to_json(mixtral()), "here")), to_json(mixtral()));
}

TEST(MoeConfig, refuses_what_is_another_function) {
  const auto with = [](const MoeConfig& config, const std::string& more) {
    return "{" + more + (more.empty() ? "" : ", ") + to_json(config).substr(1);
  };
  EXPECT_NO_THROW(make_model(with(mixtral(), R"("router_jitter_noise": 0.0)"), "here"));
  EXPECT_NO_THROW(make_model(
      with(qwen2_moe(), R"("layer_types": ["full_attention", "full_attention", "full_attention"])"), "here"));
  const auto changed = [](MoeConfig config, auto change) {
    change(config);
    return to_json(config);
  };
  EXPECT_THROW(make_model(with(mixtral(), R"("router_jitter_noise": 0.1)"), "here"), base::CorruptError);
  EXPECT_THROW(make_model(with(qwen2_moe(), R"("layer_types": ["full_attention", "sliding_attention"])"), "here"),
               base::CorruptError);
  for (const auto& text :
       {changed(mixtral(), [](auto& c) { c.choices = 6; }), changed(mixtral(), [](auto& c) { c.experts = 1 << 20; }),
        changed(mixtral(), [](auto& c) { c.balance_coefficient = -1; }),
        changed(qwen2_moe(), [](auto& c) { c.dense_layers = {3}; }),
        changed(qwen2_moe(), [](auto& c) { c.dense_layers = {-1}; }),
        changed(qwen2_moe(), [](auto& c) { c.sparse_step = 0; }),
        changed(qwen2_moe(), [](auto& c) { c.shared_inner = 0; })})
    EXPECT_THROW(make_model(text, "here"), base::CorruptError) << text;
  auto shared = mixtral();
  shared.shared_inner = 8;
  EXPECT_THROW(make_moe(shared), base::ConfigError);
}

TEST(MoeConfig, reads_or_refuses_any_damaged_text) {
  const std::string good = to_json(qwen2_moe());
  const auto key = base::stream_key(7, "damage");
  int read = 0;
  for (uint64_t i = 0; i < 5000; ++i) {
    std::string text = good;
    for (uint64_t change = 0; change <= i % 3; ++change)
      text[base::random_below(key, 6 * i + 2 * change, text.size())] =
          static_cast<char>(base::random_below(key, 6 * i + 2 * change + 1, 256));
    try {
      shape_of(qwen2_moe_from_json(text, "here"), 8);
      ++read;
    } catch (const base::CorruptError&) {
    }
  }
  EXPECT_GT(read, 0);
  EXPECT_LT(read, 5000);
}

TEST(MoeDecode, gives_the_same_tokens_alone_and_in_a_batch_whatever_the_capacity) {
  auto config = mixtral();
  config.capacity_factor = 0.5;
  auto model = made(config, at::kCPU);
  DecodeOptions options;
  options.new_tokens = 12;
  const std::vector<Tokens> prompts = {{1, 2, 3}, {7, 8, 9}, {4, 5}};
  const auto together = decode(*model, at::kCPU, prompts, options);
  for (size_t i = 0; i < prompts.size(); ++i)
    EXPECT_EQ(decode(*model, at::kCPU, {prompts[i]}, options)[0], together[i]);
}

}  // namespace
}  // namespace hyperion::models
