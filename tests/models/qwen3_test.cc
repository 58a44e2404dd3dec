// Mistral and Qwen3: what they have that Llama has not.
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "hyperion/base/error.h"
#include "hyperion/base/json.h"
#include "hyperion/models/decode.h"
#include "hyperion/models/llama.h"
#include "hyperion/models/recipe.h"
#include "hyperion/models/registry.h"
#include "hyperion/nn/key_value_cache.h"
#include "tests/support/devices.h"

namespace hyperion::models {
namespace {

using testing::relative_error;

std::string with(const std::string& type, const std::string& more) {
  return "{\"model_type\": \"" + type +
         R"(", "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 40,
             "intermediate_size": 50, "max_position_embeddings": 64, "vocab_size": 300)" +
         (more.empty() ? "" : ", " + more) + "}";
}

TEST(Qwen3, has_norms_of_heads_under_hugging_faces_names_and_counts_them) {
  for (const bool bias : {false, true}) {
    auto model = make_model(
        with("qwen3", std::string("\"head_dim\": 10, \"attention_bias\": ") + (bias ? "true" : "false")), "here");
    std::set<std::string> names;
    int64_t parameters = 0;
    for (const auto& p : model->parameters()) {
      names.insert(p.name);
      parameters += p.tensor.numel();
      if (p.name.ends_with("_norm.weight")) {
        EXPECT_EQ(p.tensor.numel(), 10) << p.name;
        EXPECT_FALSE(p.traits.decay);
      }
    }
    EXPECT_EQ(model->shape(40).parameters, parameters);
    EXPECT_TRUE(names.contains("model.layers.2.self_attn.q_norm.weight"));
    EXPECT_TRUE(names.contains("model.layers.0.self_attn.k_norm.weight"));
    EXPECT_EQ(names.contains("model.layers.1.self_attn.o_proj.bias"), bias);
  }
}

TEST(Qwen3, takes_the_width_of_heads_that_transformers_takes_where_none_is_given) {
  EXPECT_EQ(qwen3_from_json(with("qwen3", ""), "here").head_width, 128);
  const std::string bare = R"({"model_type": "TYPE", "num_hidden_layers": 1, "num_attention_heads": 64,
      "hidden_size": 64, "intermediate_size": 50, "max_position_embeddings": 64, "vocab_size": 300, "head_dim": 4,
      "sliding_window": null})";
  const auto of = [&](const std::string& type) { return std::string(bare).replace(bare.find("TYPE"), 4, type); };
  EXPECT_EQ(qwen3_from_json(of("qwen3"), "here").key_value_heads, 32);
  EXPECT_EQ(mistral_from_json(of("mistral"), "here").key_value_heads, 8);
}

TEST(Qwen3, survives_its_json_and_so_does_mistral) {
  for (const auto& [type, more] : std::map<std::string, std::string>{
           {"qwen3", R"("head_dim": 10, "attention_bias": true, "tie_word_embeddings": true)"},
           {"mistral", R"("sliding_window": null, "head_dim": 12)"}}) {
    const auto written = make_config(with(type, more), "here");
    EXPECT_EQ(make_config(written, "here"), written);
    EXPECT_EQ(base::parse_json(written, "config")["model_type"], type);
  }
  EXPECT_EQ(architecture_of("mistral"), "MistralForCausalLM");
  EXPECT_EQ(architecture_of("qwen3"), "Qwen3ForCausalLM");
}

TEST(RotaryScaling, survives_its_json) {
  for (const char* more :
       {R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 9,
            "mscale": 2.0, "mscale_all_dim": 0.5, "truncate": false})",
        R"("rope_scaling": {"type": "dynamic", "factor": 2.5})"}) {
    const auto written = make_config(with("qwen2", more), "here");
    EXPECT_EQ(make_config(written, "here"), written);
  }
  const auto yarn = [](const std::string& more) {
    return qwen3_from_json(with("qwen3", R"("rope_scaling": {"rope_type": "yarn", )" + more), "here").rope;
  };
  EXPECT_EQ(yarn(R"("factor": null, "original_max_position_embeddings": 16})").factor, 4) << "from the two contexts";
  EXPECT_EQ(yarn(R"("factor": 2.0}, "original_max_position_embeddings": 32)").original_context, 32);
  EXPECT_EQ(yarn(R"("factor": 2.0, "beta_fast": 0})").fast_turns, 32);
  EXPECT_NEAR(yarn(R"("factor": 4.0})").table_scale, 1.1386294, 1e-6);
}

// Of linear and dynamic scaling max_position_embeddings is what was trained; of the others it may be either.
TEST(RotaryScaling, stretches_the_longest_sequence) {
  for (const auto& [scaling, reach] : std::initializer_list<std::pair<const char*, int64_t>>{
           {R"("type": "dynamic", "factor": 2.5)", 160},
           {R"("type": "linear", "factor": 2.0)", 128},
           {R"("type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64)", 256},
           {R"("type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16)", 64},
           {R"("type": "yarn", "factor": 4.0)", 256},
           {R"("rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1, "high_freq_factor": 4,
               "original_max_position_embeddings": 16)",
            128}}) {
    const auto config = llama_from_json(with("llama", std::string(R"("rope_scaling": {)") + scaling + "}"), "here");
    EXPECT_EQ(config.context, 64);
    EXPECT_EQ(make_llama(config)->context(), reach) << scaling;
    EXPECT_EQ(shape_of(config, 8).context, reach) << scaling;
  }
}

TEST(Qwen3, presets_have_the_published_numbers_of_parameters) {
  const std::map<std::string, int64_t> published = {{"qwen3-0.6b", 596049920},       {"qwen3-1.7b", 1720574976},
                                                    {"qwen3-4b", 4022468096},        {"qwen3-8b", 8190735360},
                                                    {"mistral-7b-v0.1", 7241732096}, {"mistral-7b-v0.3", 7248023552}};
  for (const auto& [name, count] : published) {
    Recipe recipe;
    recipe.preset = name;
    EXPECT_EQ(config_shape(config_json(recipe), name, 1).parameters, count) << name;
  }
}

class Qwen3OnDevice : public testing::OnDevice {};

TEST_P(Qwen3OnDevice, a_cache_gives_the_same_logits_token_by_token) {
  auto model = make_model(with("qwen3", R"("head_dim": 10)"), "here");
  model->initialise(5);
  model->to(GetParam(), at::kFloat);
  const auto input = at::randint(0, 300, {2, 17}, at::kLong).to(GetParam());
  nn::Pass whole, parts;
  nn::KeyValueCache cache;
  parts.cache = &cache;
  const auto expected = model->logits(input, whole);
  EXPECT_LT(relative_error(model->logits(input.narrow(1, 0, 11), parts), expected.narrow(1, 0, 11)), 1e-5);
  for (int64_t i = 11; i < 17; ++i)
    EXPECT_LT(relative_error(model->logits(input.narrow(1, i, 1), parts), expected.narrow(1, i, 1)), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Devices, Qwen3OnDevice, ::testing::ValuesIn(testing::devices()), testing::device_name);

TEST(Qwen3, heads_need_not_divide_the_width_of_a_recipe_whose_heads_have_their_own) {
  Recipe recipe;
  recipe.preset = "qwen3-0.6b", recipe.layers = 2, recipe.heads = 6, recipe.key_value_heads = 2, recipe.width = 40;
  EXPECT_NO_THROW(config_json(recipe));
  recipe.preset = "mistral-7b-v0.3";
  EXPECT_THROW(config_json(recipe), base::ConfigError);
}

}  // namespace
}  // namespace hyperion::models
