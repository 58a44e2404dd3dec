#include "hyperion/models/gpt2.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "hyperion/base/error.h"
#include "hyperion/models/decode.h"
#include "hyperion/nn/key_value_cache.h"
#include "tests/support/devices.h"

namespace hyperion::models {
namespace {

using testing::OnDevice;
using testing::relative_error;

Gpt2Config small_gpt2() {
  Gpt2Config config;
  config.layers = 3, config.heads = 2, config.width = 32, config.context = 40, config.vocabulary = 300;
  return config;
}

std::unique_ptr<Model> made(const Gpt2Config& config, at::Device device, at::ScalarType type = at::kFloat,
                            uint64_t seed = 5) {
  auto model = make_gpt2(config);
  model->initialise(seed);
  model->to(device, type);
  return model;
}

class Gpt2 : public OnDevice {
 protected:
  at::Tensor ids(int64_t batch, int64_t length) {
    return at::randint(0, 300, {batch, length}, at::TensorOptions().dtype(at::kLong)).to(GetParam());
  }
};

TEST_P(Gpt2, starts_at_the_loss_of_guessing) {
  auto model = made(small_gpt2(), GetParam());
  nn::Pass pass;
  const auto logits = model->logits(ids(8, 40), pass);
  const double loss = at::cross_entropy_loss(logits.view({-1, 300}), ids(8, 40).view({-1})).item<double>();
  EXPECT_NEAR(loss, std::log(300.0), 0.02 * std::log(300.0));
}

TEST_P(Gpt2, sees_no_later_token) {
  auto model = made(small_gpt2(), GetParam());
  nn::Pass pass;
  auto one = ids(2, 30), other = one.clone();
  other.narrow(1, 20, 10).copy_(ids(2, 10));
  const auto a = model->logits(one, pass), b = model->logits(other, pass);
  EXPECT_LT(relative_error(a.narrow(1, 0, 20), b.narrow(1, 0, 20)), 1e-6);
  EXPECT_GT(relative_error(a.narrow(1, 20, 10), b.narrow(1, 20, 10)), 1e-3);
}

TEST_P(Gpt2, fused_and_reference_passes_agree_in_value_and_gradient) {
  auto model = made(small_gpt2(), GetParam());
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

TEST_P(Gpt2, a_cache_gives_the_same_logits_token_by_token) {
  auto model = made(small_gpt2(), GetParam());
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

TEST_P(Gpt2, initial_weights_depend_on_seed_and_name_alone) {
  const auto config = small_gpt2();
  auto deeper = config;
  deeper.layers = 5;
  const auto weights = [](const std::unique_ptr<Model>& model) {
    std::map<std::string, at::Tensor> map;
    for (const auto& p : model->parameters()) map[p.name] = p.tensor.detach().to(at::kCPU);
    return map;
  };
  const auto a = weights(made(config, GetParam())), b = weights(made(config, GetParam()));
  const auto other_seed = weights(made(config, GetParam(), at::kFloat, 6)), more = weights(made(deeper, GetParam()));
  for (const auto& [name, tensor] : a) EXPECT_TRUE(tensor.equal(b.at(name))) << name;
  EXPECT_FALSE(a.at("transformer.wte.weight").equal(other_seed.at("transformer.wte.weight")));
  EXPECT_TRUE(a.at("transformer.h.2.mlp.c_fc.weight").equal(more.at("transformer.h.2.mlp.c_fc.weight")));
  EXPECT_NEAR(a.at("transformer.h.0.attn.c_proj.weight").std().item<double>(), 0.02 / std::sqrt(6.0), 1e-3);
}

TEST_P(Gpt2, dropout_needs_training_and_follows_the_step) {
  auto config = small_gpt2();
  config.dropout = 0.2;
  auto model = made(config, GetParam());
  const auto input = ids(2, 20);
  const auto logits = [&](bool training, uint32_t step) {
    nn::Pass pass;
    pass.training = training, pass.seed = 3, pass.step = step;
    return model->logits(input, pass).detach();
  };
  EXPECT_TRUE(logits(false, 1).equal(logits(false, 2)));
  EXPECT_TRUE(logits(true, 1).equal(logits(true, 1)));
  EXPECT_FALSE(logits(true, 1).equal(logits(true, 2)));
  EXPECT_FALSE(logits(true, 1).equal(logits(false, 1)));
}

INSTANTIATE_TEST_SUITE_P(Devices, Gpt2, ::testing::ValuesIn(testing::devices()), testing::device_name);

TEST(Gpt2Names, are_hugging_faces_and_decay_spares_norms_biases_and_embeddings) {
  std::set<std::string> names, decayed;
  int64_t parameters = 0;
  const auto config = small_gpt2();
  auto model = made(config, at::kCPU);
  for (const auto& p : model->parameters()) {
    names.insert(p.name);
    if (p.traits.decay) decayed.insert(p.name.substr(p.name.find("h.0.") == std::string::npos ? 0 : 18));
    parameters += p.tensor.numel();
  }
  for (const char* name :
       {"transformer.wte.weight", "transformer.wpe.weight", "transformer.h.0.ln_1.weight",
        "transformer.h.2.attn.c_attn.bias", "transformer.h.1.mlp.c_proj.weight", "transformer.ln_f.bias"})
    EXPECT_TRUE(names.contains(name)) << name;
  for (const auto& name : decayed)
    EXPECT_TRUE(name.ends_with("c_attn.weight") || name.ends_with("c_proj.weight") || name.ends_with("c_fc.weight"))
        << name;
  EXPECT_EQ(model->shape(40).parameters, parameters);
}

TEST(Gpt2Config, survives_its_json_and_refuses_another_family) {
  const auto config = small_gpt2();
  const auto back = gpt2_from_json(to_json(config), "here");
  EXPECT_EQ(back.layers, config.layers);
  EXPECT_EQ(back.vocabulary, config.vocabulary);
  EXPECT_THROW(gpt2_from_json(R"({"model_type": "llama"})", "here"), base::CorruptError);
  EXPECT_THROW(gpt2_from_json(R"({"model_type": "gpt2"})", "here"), base::CorruptError);
  EXPECT_THROW(gpt2_from_json("{", "here"), base::CorruptError);
}

TEST(Decode, greedy_takes_the_likeliest_and_batches_change_nothing) {
  auto model = made(small_gpt2(), at::kCPU);
  DecodeOptions options;
  options.new_tokens = 6;
  const std::vector<Tokens> prompts = {{1, 2, 3}, {7, 8, 9}, {4, 5}, {1}};
  const auto together = decode(*model, at::kCPU, prompts, options);
  for (size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(decode(*model, at::kCPU, {prompts[i]}, options)[0], together[i]);
    Tokens text = prompts[i];
    for (const int64_t token : together[i]) {
      nn::Pass pass;
      const auto ids = at::arange(static_cast<int64_t>(text.size()), at::kLong).unsqueeze(0);
      for (size_t k = 0; k < text.size(); ++k) ids[0][k].fill_(text[k]);
      EXPECT_EQ(model->logits(ids, pass)[0][-1].argmax().item<int64_t>(), token);
      text.push_back(token);
    }
  }
}

TEST(Decode, sampling_repeats_by_seed_and_stops_where_told) {
  auto model = made(small_gpt2(), at::kCPU);
  DecodeOptions options;
  options.new_tokens = 1000, options.temperature = 1, options.top_k = 50;
  const auto a = decode(*model, at::kCPU, {{1, 2}}, options)[0];
  EXPECT_EQ(a.size(), 38u) << "the context is full";
  EXPECT_EQ(decode(*model, at::kCPU, {{1, 2}}, options)[0], a);
  options.seed = 2;
  EXPECT_NE(decode(*model, at::kCPU, {{1, 2}}, options)[0], a);
  options.seed = 1, options.stop_tokens = {a[3]};
  EXPECT_LE(decode(*model, at::kCPU, {{1, 2}}, options)[0].size(), 4u);
  EXPECT_THROW(decode(*model, at::kCPU, {{}}, options), base::ConfigError);
  EXPECT_THROW(decode(*model, at::kCPU, {Tokens(40, 1)}, options), base::ConfigError);
}

}  // namespace
}  // namespace hyperion::models
