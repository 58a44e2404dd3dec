#include "hyperion/models/llama.h"

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

LlamaConfig small_llama() {
  LlamaConfig config;
  config.layers = 3, config.heads = 6, config.key_value_heads = 2, config.head_width = 8, config.width = 36;
  config.inner = 50, config.context = 40, config.vocabulary = 300;
  return config;
}

std::unique_ptr<Model> made(const LlamaConfig& config, at::Device device, at::ScalarType type = at::kFloat) {
  auto model = make_llama(config);
  model->initialise(5);
  model->to(device, type);
  return model;
}

class Llama : public OnDevice {
 protected:
  at::Tensor ids(int64_t batch, int64_t length) {
    return at::randint(0, 300, {batch, length}, at::TensorOptions().dtype(at::kLong)).to(GetParam());
  }
};

TEST_P(Llama, starts_at_the_loss_of_guessing) {
  auto model = made(small_llama(), GetParam());
  nn::Pass pass;
  const auto logits = model->logits(ids(8, 40), pass);
  const double loss = at::cross_entropy_loss(logits.view({-1, 300}), ids(8, 40).view({-1})).item<double>();
  EXPECT_NEAR(loss, std::log(300.0), 0.02 * std::log(300.0));
}

TEST_P(Llama, a_cache_gives_the_same_logits_token_by_token) {
  auto model = made(small_llama(), GetParam());
  const auto input = ids(2, 17);
  nn::Pass whole, parts;
  nn::KeyValueCache cache;
  parts.cache = &cache;
  const auto expected = model->logits(input, whole);
  EXPECT_LT(relative_error(model->logits(input.narrow(1, 0, 9), parts), expected.narrow(1, 0, 9)), 1e-5);
  EXPECT_LT(relative_error(model->logits(input.narrow(1, 9, 3), parts), expected.narrow(1, 9, 3)), 1e-5);
  for (int64_t i = 12; i < 17; ++i)
    EXPECT_LT(relative_error(model->logits(input.narrow(1, i, 1), parts), expected.narrow(1, i, 1)), 1e-5);
}

TEST_P(Llama, fused_and_reference_passes_agree_in_value_and_gradient) {
  auto model = made(small_llama(), GetParam());
  const auto input = ids(3, 33), target = ids(3, 33).view({-1});
  std::vector<std::vector<at::Tensor>> results;
  for (const bool reference : {false, true}) {
    nn::Pass pass;
    pass.training = true, pass.reference = reference;
    const auto loss = at::cross_entropy_loss(model->logits(input, pass).view({-1, 300}), target);
    loss.backward();
    results.push_back({loss.detach()});
    for (auto& parameter : model->parameters()) {
      results.back().push_back(parameter.tensor.grad().clone());
      parameter.tensor.mutable_grad().reset();
    }
  }
  for (size_t i = 0; i < results[0].size(); ++i) EXPECT_LT(relative_error(results[0][i], results[1][i]), 1e-4) << i;
}

TEST_P(Llama, computes_in_bf16_near_to_fp32) {
  const auto input = ids(2, 30);
  nn::Pass pass;
  const auto wide = made(small_llama(), GetParam())->logits(input, pass);
  EXPECT_LT(relative_error(made(small_llama(), GetParam(), at::kBFloat16)->logits(input, pass), wide), 0.03);
}

INSTANTIATE_TEST_SUITE_P(Devices, Llama, ::testing::ValuesIn(testing::devices()), testing::device_name);

TEST(LlamaNames, are_hugging_faces_and_shape_counts_them) {
  for (const bool tied : {false, true}) {
    for (const bool bias : {false, true}) {
      auto config = small_llama();
      config.tied = tied;
      config.query_key_value_bias = config.output_bias = config.feed_forward_bias = bias;
      auto model = make_llama(config);
      std::set<std::string> names, decayed;
      int64_t parameters = 0;
      for (const auto& p : model->parameters()) {
        names.insert(p.name);
        if (p.traits.decay) decayed.insert(p.name);
        parameters += p.tensor.numel();
      }
      EXPECT_EQ(model->shape(40).parameters, parameters);
      EXPECT_EQ(names.contains("lm_head.weight"), !tied);
      EXPECT_EQ(names.contains("model.layers.2.self_attn.k_proj.bias"), bias);
      for (const char* name : {"model.embed_tokens.weight", "model.layers.0.input_layernorm.weight",
                               "model.layers.1.mlp.gate_proj.weight", "model.norm.weight"}) {
        EXPECT_TRUE(names.contains(name)) << name;
        EXPECT_EQ(decayed.contains(name), std::string(name).find("mlp") != std::string::npos) << name;
      }
    }
  }
}

TEST(LlamaConfig, survives_its_json) {
  auto config = small_llama();
  config.rope.scaling = nn::RopeScaling::llama3;
  config.rope.theta = 500000, config.rope.factor = 8, config.rope.original_context = 32;
  config.tied = true;
  const auto back = llama_from_json(to_json(config), "here");
  EXPECT_EQ(to_json(back), to_json(config));
  EXPECT_EQ(back.rope.original_context, 32);
  EXPECT_EQ(back.head_width, 8);
  config.model_type = "qwen2";
  const auto qwen = qwen2_from_json(to_json(config), "here");
  EXPECT_TRUE(qwen.query_key_value_bias);
  EXPECT_FALSE(qwen.output_bias);
}

constexpr const char* kCore =
    R"("num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 40,
       "max_position_embeddings": 64, "vocab_size": 100)";

std::string config_with(const std::string& type, const std::string& more) {
  return "{\"model_type\": \"" + type + "\", " + kCore + (more.empty() ? "" : ", " + more) + "}";
}

TEST(LlamaConfig, reads_the_older_and_the_newer_way_to_write_rotary_scaling) {
  const auto older = llama_from_json(
      config_with("llama", R"("rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0})"), "here");
  const auto newer = llama_from_json(
      config_with("llama", R"("rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5})"), "here");
  EXPECT_EQ(to_json(older), to_json(newer));
  EXPECT_EQ(older.rope.scaling, nn::RopeScaling::linear);
  EXPECT_EQ(older.rope.theta, 5e5);
}

TEST(LlamaConfig, refuses_what_is_another_function) {
  EXPECT_NO_THROW(make_model(config_with("llama", ""), "here"));
  for (const char* more :
       {R"("hidden_act": "gelu")", R"("rope_scaling": {"type": "longrope", "factor": 2.0})",
        R"("rope_scaling": {"type": "linear"})", R"("rope_parameters": {"rope_type": "dynamic"})",
        R"("rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2}})",
        R"("rope_scaling": {"type": "yarn"})", R"("rope_scaling": {"type": "yarn", "factor": 2, "beta_slow": 40})",
        R"("rope_scaling": {"type": "yarn", "factor": 2, "attention_factor": 0})",
        R"("rope_scaling": {"type": "yarn", "factor": 2, "truncate": 1})", R"("head_dim": 2, "rope_scaling":
            {"type": "dynamic", "factor": 2})",
        R"("num_key_value_heads": 3)", R"("head_dim": 7)", R"("rms_norm_eps": "small")", R"("tie_word_embeddings": 1)",
        R"("num_key_value_heads": -1)", R"("rope_theta": 0)", R"("partial_rotary_factor": 0.5)",
        R"("num_hidden_layers": 99999999999999999999)"})
    EXPECT_THROW(make_model(config_with("llama", more), "here"), base::CorruptError) << more;
  for (const char* text :
       {"{", "[]", "{}", R"({"model_type": "bert"})", R"({"model_type": 3})", R"({"model_type": "llama"})"})
    EXPECT_THROW(make_model(text, "here"), base::CorruptError) << text;
  const std::string padding((2 << 20) - config_with("llama", "").size(), ' ');
  EXPECT_NO_THROW(config_shape(config_with("llama", "") + padding, "here", 1));
  EXPECT_THROW(config_shape(config_with("llama", "") + padding + " ", "here", 1), base::CorruptError) << "too long";
}

TEST(LlamaConfig, reads_or_refuses_any_damaged_text) {
  auto config = small_llama();
  config.rope.scaling = nn::RopeScaling::llama3;
  const std::string good = to_json(config);
  const auto key = base::stream_key(7, "damage");
  int read = 0;
  for (uint64_t i = 0; i < 5000; ++i) {
    std::string text = good;
    for (uint64_t change = 0; change <= i % 3; ++change)
      text[base::random_below(key, 6 * i + 2 * change, text.size())] =
          static_cast<char>(base::random_below(key, 6 * i + 2 * change + 1, 256));
    try {
      llama_from_json(text, "here");
      ++read;
    } catch (const base::CorruptError&) {
    }
  }
  EXPECT_GT(read, 0);
  EXPECT_LT(read, 5000);
}

TEST(LlamaDecode, goes_through_the_cache_alike_alone_and_in_a_batch) {
  auto model = made(small_llama(), at::kCPU);
  DecodeOptions options;
  options.new_tokens = 12;
  const std::vector<Tokens> prompts = {{1, 2, 3}, {7, 8, 9}, {4, 5}};
  const auto together = decode(*model, at::kCPU, prompts, options);
  for (size_t i = 0; i < prompts.size(); ++i)
    EXPECT_EQ(decode(*model, at::kCPU, {prompts[i]}, options)[0], together[i]);
}

}  // namespace
}  // namespace hyperion::models
