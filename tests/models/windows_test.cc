// Layers that see the last tokens alone: Mistral's, Mixtral's and Qwen's.
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/json.h"
#include "hyperion/models/decode.h"
#include "hyperion/models/llama.h"
#include "hyperion/models/registry.h"
#include "hyperion/nn/key_value_cache.h"
#include "tests/support/devices.h"

namespace hyperion::models {
namespace {

using testing::relative_error;

std::string windowed(const std::string& type, const std::string& more, int64_t layers = 3) {
  return "{\"model_type\": \"" + type + "\", \"num_hidden_layers\": " + std::to_string(layers) +
         R"(, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 10, "hidden_size": 40,
             "intermediate_size": 50, "max_position_embeddings": 64, "vocab_size": 300, "num_local_experts": 3,
             "num_experts_per_tok": 2, "num_experts": 3, "moe_intermediate_size": 20,
             "shared_expert_intermediate_size": 20)" +
         (more.empty() ? "" : ", " + more) + "}";
}

using Windows = std::vector<int64_t>;

TEST(WindowConfig, is_read_as_transformers_reads_it) {
  EXPECT_EQ(mistral_from_json(windowed("mistral", ""), "here").windows, Windows(3, 4096)) << "as its class has it";
  EXPECT_EQ(mistral_from_json(windowed("mistral", R"("sliding_window": null)"), "here").windows, Windows());
  EXPECT_EQ(mistral_from_json(windowed("mistral", R"("sliding_window": 7)"), "here").windows, Windows(3, 7));
  const auto qwen = [](const std::string& more) { return qwen2_from_json(windowed("qwen2", more), "here").windows; };
  EXPECT_EQ(qwen(R"("sliding_window": 7, "max_window_layers": 1)"), Windows()) << "not used";
  EXPECT_EQ(qwen(R"("use_sliding_window": true, "sliding_window": 7)"), Windows()) << "from layer 28 on";
  EXPECT_EQ(qwen(R"("use_sliding_window": true, "max_window_layers": 2)"), (Windows{0, 0, 4096}));
  EXPECT_EQ(qwen(R"("use_sliding_window": true, "sliding_window": 7, "max_window_layers": 0)"), Windows(3, 7));
  EXPECT_EQ(qwen(R"("use_sliding_window": true, "sliding_window": null, "max_window_layers": 0)"), Windows());
  EXPECT_EQ(qwen(R"("use_sliding_window": true, "sliding_window": 7, "max_window_layers": 3,
                    "layer_types": ["sliding_attention", "full_attention", "full_attention"])"),
            (Windows{7, 0, 0}));
}

TEST(WindowConfig, survives_its_json) {
  const std::string some = R"("use_sliding_window": true, "sliding_window": 7, "max_window_layers": 1)";
  for (const auto& [type, more] : std::map<std::string, std::string>{{"mistral", R"("sliding_window": 9)"},
                                                                     {"mixtral", R"("sliding_window": 9)"},
                                                                     {"qwen2", some},
                                                                     {"qwen3", some},
                                                                     {"qwen2_moe", some}}) {
    const auto written = make_config(windowed(type, more), "here");
    EXPECT_EQ(make_config(written, "here"), written);
    const auto json = base::parse_json(written, "config");
    EXPECT_EQ(json["sliding_window"], type.starts_with("mi") ? 9 : 7) << type;
    if (type.starts_with("qwen")) {
      EXPECT_EQ(json["layer_types"][2], type == "qwen2_moe" ? "full_attention" : "sliding_attention") << type;
      EXPECT_EQ(json["use_sliding_window"], true) << type;
    }
  }
  EXPECT_TRUE(base::parse_json(make_config(windowed("mistral", R"("sliding_window": null)"), "here"), "config")
                  .at("sliding_window")
                  .is_null());
}

TEST(WindowConfig, is_refused_where_it_contradicts_itself_or_is_not_known) {
  const std::string types = R"(, "layer_types": ["full_attention", "sliding_attention", )";
  for (const auto& [type, more] : std::vector<std::pair<std::string, std::string>>{
           {"mistral", R"("sliding_window": 0)"},
           {"mistral", R"("sliding_window": 8)" + types + R"("sliding_attention"])"},
           {"mixtral", R"("sliding_window": "8")"},
           {"qwen2", R"("sliding_window": 8)" + types + R"("full_attention"])"},
           {"qwen2", R"("use_sliding_window": true)" + types + R"("chunked_attention"])"},
           {"qwen2", R"("use_sliding_window": true)" + types.substr(0, types.size() - 2) + "]"},
           {"qwen3", R"("use_sliding_window": true, "sliding_window": null)" + types + R"("full_attention"])"},
           {"qwen3", R"("use_sliding_window": true, "max_window_layers": -1)"},
           {"qwen3", R"("use_sliding_window": true, "sliding_window": 0)"},
           {"qwen2_moe", R"("use_sliding_window": 1)"}})
    EXPECT_THROW(make_model(windowed(type, more), "here"), base::CorruptError) << type << more;
}

TEST(WindowShape, counts_the_keys_within_windows) {
  const auto attention = [](const std::string& more, int64_t length) {
    const auto shape = shape_of(qwen3_from_json(windowed("qwen3", more), "here"), length);
    EXPECT_EQ(shape.backward_flops_token, 2 * shape.forward_flops_token);
    return shape.forward_flops_token - shape.weight_flops_token;
  };
  const std::string two = R"("use_sliding_window": true, "sliding_window": 8, "max_window_layers": 1)";
  EXPECT_DOUBLE_EQ(attention(two, 8), attention("", 8));
  // 40 wide over all heads; a layer of 16 keys on average, two of 8 less those that the first tokens lack.
  EXPECT_DOUBLE_EQ(attention("", 32), 4 * 40 * 3 * 16);
  EXPECT_DOUBLE_EQ(attention(two, 32), 4 * 40 * (16 + 2 * (8 - 1)));
}

class Windowed : public testing::OnDevice {
 protected:
  std::unique_ptr<Model> made(const std::string& config, at::ScalarType type = at::kFloat) {
    auto model = make_model(config, "here");
    model->initialise(5);
    model->to(GetParam(), type);
    return model;
  }
  at::Tensor ids(int64_t batch, int64_t length) {
    return at::randint(0, 300, {batch, length}, at::kLong).to(GetParam());
  }
};

TEST_P(Windowed, layers_hide_what_lies_before_their_windows) {
  for (const bool fused : {false, true})
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      auto model = made(windowed("mistral", R"("sliding_window": 6)", 2), type);
      const auto input = ids(2, 20);
      auto changed = input.clone();
      changed.select(1, 3).add_(1).remainder_(300);
      nn::Pass pass;
      pass.fused_blocks = fused;
      const auto one = model->logits(input, pass), other = model->logits(changed, pass);
      const auto differ = one.sub(other).abs().sum(-1).sum(0).gt(0);
      EXPECT_TRUE(differ[3].item<bool>());
      if (type == at::kFloat) {  // a narrow type may round so little away
        EXPECT_TRUE(differ[13].item<bool>()) << "two layers reach 2 * 5 tokens back";
      }
      EXPECT_FALSE(differ.narrow(0, 14, 6).any().item<bool>());
    }
}

TEST_P(Windowed, layers_give_the_same_logits_through_a_cache) {
  const std::string some = R"("use_sliding_window": true, "sliding_window": 5, "max_window_layers": 1)";
  for (const auto& config : {windowed("qwen3", some), windowed("mistral", R"("sliding_window": 4)")}) {
    auto model = made(config);
    const auto input = ids(2, 23);
    nn::Pass whole, parts;
    nn::KeyValueCache cache;
    parts.cache = &cache;
    const auto expected = model->logits(input, whole);
    EXPECT_LT(relative_error(model->logits(input.narrow(1, 0, 9), parts), expected.narrow(1, 0, 9)), 1e-5);
    EXPECT_LT(relative_error(model->logits(input.narrow(1, 9, 7), parts), expected.narrow(1, 9, 7)), 1e-5);
    for (int64_t i = 16; i < 23; ++i)
      EXPECT_LT(relative_error(model->logits(input.narrow(1, i, 1), parts), expected.narrow(1, i, 1)), 1e-5);
  }
}

TEST_P(Windowed, layers_decode_alike_alone_and_in_a_batch) {
  auto model = made(windowed("qwen2", R"("use_sliding_window": true, "sliding_window": 5, "max_window_layers": 0)"));
  DecodeOptions options;
  options.new_tokens = 14;
  const std::vector<Tokens> prompts = {{1, 2, 3, 4, 5, 6, 7, 8}, {7, 8, 9}, {4}};
  const auto together = decode(*model, GetParam(), prompts, options);
  for (size_t i = 0; i < prompts.size(); ++i)
    EXPECT_EQ(decode(*model, GetParam(), {prompts[i]}, options)[0], together[i]);
}

INSTANTIATE_TEST_SUITE_P(Devices, Windowed, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion::models
