// A model built of fused blocks is the same model: its loss and every gradient, in each family, on each device.
#include <ATen/ops/arange.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "hyperion/models/recipe.h"
#include "hyperion/models/registry.h"
#include "hyperion/nn/saved_bytes.h"
#include "tests/support/devices.h"

namespace hyperion::models {
namespace {

class FusedBlocks : public testing::OnDevice {
  void SetUp() override { device::allow_tf32(false); }
};

struct Family {
  const char *name, *config;
};
const Family kFamilies[] = {
    {"gpt2", R"({"model_type": "gpt2", "n_layer": 3, "n_head": 3, "n_embd": 48, "n_positions": 40, "vocab_size": 301,
                 "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0})"},
    {"gpt2 with dropout", R"({"model_type": "gpt2", "n_layer": 2, "n_head": 3, "n_embd": 48, "n_positions": 40,
                              "vocab_size": 301, "resid_pdrop": 0.2, "embd_pdrop": 0.2, "attn_pdrop": 0})"},
    {"untied gpt2", R"({"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 40,
                        "vocab_size": 300, "tie_word_embeddings": false})"},
    {"llama", R"({"model_type": "llama", "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2,
                  "head_dim": 8, "hidden_size": 36, "intermediate_size": 52, "max_position_embeddings": 40,
                  "vocab_size": 300})"},
    {"qwen2", R"({"model_type": "qwen2", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                  "hidden_size": 64, "intermediate_size": 100, "max_position_embeddings": 40, "vocab_size": 300,
                  "tie_word_embeddings": true})"},
    {"mistral", R"({"model_type": "mistral", "num_hidden_layers": 2, "num_attention_heads": 4,
                    "num_key_value_heads": 2, "hidden_size": 64, "intermediate_size": 100,
                    "max_position_embeddings": 40, "vocab_size": 300, "sliding_window": null})"},
    {"mistral with a window", R"({"model_type": "mistral", "num_hidden_layers": 2, "num_attention_heads": 4,
                    "num_key_value_heads": 2, "hidden_size": 64, "intermediate_size": 100,
                    "max_position_embeddings": 40, "vocab_size": 300, "sliding_window": 7})"},
    {"qwen3", R"({"model_type": "qwen3", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                  "head_dim": 16, "hidden_size": 48, "intermediate_size": 100, "max_position_embeddings": 40,
                  "vocab_size": 300, "use_sliding_window": true, "sliding_window": 5, "max_window_layers": 1})"},
    {"mixtral", R"({"model_type": "mixtral", "num_hidden_layers": 2, "num_attention_heads": 4,
                    "num_key_value_heads": 2, "hidden_size": 32, "intermediate_size": 24,
                    "max_position_embeddings": 40, "vocab_size": 300, "num_local_experts": 5,
                    "num_experts_per_tok": 2, "output_router_logits": true})"},
    {"vit", R"({"model_type": "vit", "num_hidden_layers": 3, "num_attention_heads": 2, "hidden_size": 32,
                "intermediate_size": 64, "image_size": 24, "patch_size": 8, "num_labels": 7})"},
    {"vit with dropout", R"({"model_type": "vit", "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 32,
                             "intermediate_size": 64, "image_size": 24, "patch_size": 8, "num_labels": 7,
                             "hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0})"},
    {"resnet", R"({"model_type": "resnet", "layer_type": "basic", "depths": [2, 2], "hidden_sizes": [16, 24],
                   "embedding_size": 8, "image_size": 24, "num_labels": 7})"},
};

struct Trained {
  std::vector<at::Tensor> tensors;  // loss and gradients
  int64_t held = 0;                 // bytes of activations between forward and backward
};

Trained trained(Model& model, const at::Tensor& input, const at::Tensor& targets, bool reference, bool fused,
                const nn::PassInputs& inputs = {}) {
  nn::Pass pass;
  static_cast<nn::PassInputs&>(pass) = inputs;
  pass.training = true, pass.reference = reference, pass.fused_blocks = fused;
  nn::SavedBytesMeter meter{nn::Residents(model.held())};
  at::Tensor loss;
  {
    const nn::SaveScope scope(meter);
    loss = model.loss(input, targets, pass);
    if (pass.auxiliary_loss.defined()) loss = loss.add(pass.auxiliary_loss);
  }
  Trained out{{loss.detach().cpu()}, meter.bytes()};
  loss.backward();
  for (auto& parameter : model.parameters()) {
    at::Tensor& gradient = parameter.tensor.mutable_grad();
    out.tensors.push_back(gradient.defined() ? gradient.cpu() : at::Tensor());
    gradient.reset();
  }
  return out;
}

// Both forms of one model, held against each other on odd shapes; some targets are not counted.
void expect_alike(Model& model, at::Device device, const nn::PassInputs& inputs = {}) {
  const bool tokens = model.input() == Input::tokens;
  const auto input = tokens ? at::randint(0, 300, {3, 33}, at::kLong) : at::randn({3, 3, 24, 24});
  auto targets = tokens ? input.roll(1, 1) : at::randint(0, 7, {3}, at::kLong);
  if (tokens) targets.select(0, 1).narrow(0, 4, 9).fill_(-100);
  const auto here = input.to(device), there = targets.to(device);
  const auto plain = trained(model, here, there, /*reference=*/true, false, inputs);
  const auto fused = trained(model, here, there, false, /*fused=*/true, inputs);
  EXPECT_LT(testing::relative_error(fused.tensors[0], plain.tensors[0]), 1e-6);
  for (size_t i = 1; i < plain.tensors.size(); ++i) {
    ASSERT_EQ(fused.tensors[i].defined(), plain.tensors[i].defined());
    if (!plain.tensors[i].defined() || plain.tensors[i].norm().item<double>() < 1e-6) continue;
    EXPECT_LT(testing::relative_error(fused.tensors[i], plain.tensors[i]), 1e-4) << model.parameters()[i - 1].name;
  }
  EXPECT_LT(fused.held, plain.held);
}

TEST_P(FusedBlocks, give_the_loss_and_gradients_of_plain_ones) {
  for (const auto& family : kFamilies) {
    SCOPED_TRACE(family.name);
    const auto model = make_model(family.config, "test");
    model->initialise(5);
    model->to(GetParam(), at::kFloat);
    expect_alike(*model, GetParam());
  }
}

// Three rows of 33 tokens, in documents of odd lengths.
TEST_P(FusedBlocks, give_the_loss_and_gradients_of_plain_ones_where_documents_share_rows) {
  auto starts = at::zeros({3, 33}, at::kInt);
  for (const auto& [row, first] : {std::pair<int64_t, int64_t>{0, 1}, {0, 20}, {1, 32}, {2, 5}, {2, 6}})
    starts.select(0, row).narrow(0, first, 33 - first).fill_(first);
  nn::PassInputs documents;
  documents.segments = blocks::Segments(starts.to(GetParam()), blocks::most_documents(starts));
  documents.positions = at::arange(33, at::kLong).sub(starts).to(GetParam());
  for (const auto& family : kFamilies) {
    SCOPED_TRACE(family.name);
    const auto model = make_model(family.config, "test");
    if (model->input() != Input::tokens) continue;
    model->initialise(5);
    model->to(GetParam(), at::kFloat);
    expect_alike(*model, GetParam(), documents);
  }
}

TEST_P(FusedBlocks, give_the_loss_and_gradients_of_plain_ones_with_adapters) {
  nn::LoraConfig everywhere{.rank = 3, .alpha = 5};
  nn::LoraConfig dropping = everywhere, some = everywhere;
  dropping.dropout = 0.3;
  for (const auto& family : kFamilies) {
    const std::string name = family.name;
    if (name == "resnet") continue;
    some.targets = name.starts_with("gpt2") || name == "untied gpt2" ? nn::LayerNames{.names = {"c_proj"}}
                                                                     : nn::LayerNames{.names = {"q_proj", "v_proj"}};
    for (const auto* lora : {&everywhere, &dropping, &some})
      for (const bool narrow : {false, true}) {
        SCOPED_TRACE(name +
                     (lora == &dropping ? ", dropping"
                      : lora == &some   ? ", some layers"
                                        : "") +
                     (narrow ? ", in 4 bits" : ""));
        const auto model = make_model(family.config, "test");
        model->initialise(5);
        if (narrow) model->quantize();
        model->adapters().add("mine", *lora, 7);
        for (auto& parameter : model->parameters())  // B begins with zeros, which would hide what A does
          if (parameter.name.find(".lora_B.") != parameter.name.npos) parameter.tensor.data().normal_(0, 0.2);
        model->to(GetParam(), at::kFloat);
        expect_alike(*model, GetParam());
      }
  }
}

TEST_P(FusedBlocks, keep_less_than_half_of_what_plain_ones_keep) {
  const auto model = make_model(R"({"model_type": "gpt2", "n_layer": 6, "n_head": 4, "n_embd": 64, "n_positions": 64,
                                    "vocab_size": 64, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0})",
                                "test");
  model->initialise(5);
  model->to(GetParam(), at::kBFloat16);
  const auto ids = at::randint(0, 64, {2, 64}, at::kLong).to(GetParam());
  const auto plain = trained(*model, ids, ids, /*reference=*/true, false);
  const auto fused = trained(*model, ids, ids, false, /*fused=*/true);
  EXPECT_LT(2 * fused.held, plain.held);
}

INSTANTIATE_TEST_SUITE_P(Devices, FusedBlocks, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion::models
