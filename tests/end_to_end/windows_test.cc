// Mistral and Qwen3 with windows and scaled positions, as a user meets them: trained, resumed, measured, asked,
// exported, adapted; and what of a config.json is refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::run;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

const char* const kMistral = R"("model_type": "mistral", "sliding_window": 6)";
const char* const kQwen3 = R"("model_type": "qwen3", "head_dim": 16, "tie_word_embeddings": true,
  "use_sliding_window": true, "sliding_window": 9, "max_window_layers": 1, "rope_scaling": {"rope_type": "yarn",
  "factor": 2.0, "original_max_position_embeddings": 32})";

class WindowedModels : public ::testing::Test {
 protected:
  WindowedModels() {
    std::string words;
    for (int i = 0; i < 900; ++i) words += "the river " + std::to_string(i * i % 89) + (i % 7 == 0 ? ".\n" : " and ");
    testing::write_file(scratch_.path() / "words.txt", words);
  }
  void describe(const std::string& family) {
    testing::write_file(scratch_.path() / "config.json",
                        "{" + family +
                            R"(, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "hidden_size": 64, "intermediate_size": 128, "max_position_embeddings": 64, "vocab_size": 256})");
  }
  Finished train(const std::string& name, const std::string& model, const Words& flags = {}) {
    testing::write_file(scratch_.path() / "recipe.toml",
                        "[train]\nsteps = 6\nbatch = 8\nlength = 20\n[data]\nsource = \"text\"\npath = \"words.txt\"\n"
                        "[optim]\nlr = 1e-2\nwarmup = 2\nschedule = \"constant\"\n[eval]\nbatches = 2\n[model]\n" +
                            model);
    return run(scratch_, Words{"train", "recipe.toml", "--run", name} + testing::device_flags() + flags);
  }
  std::string losses_of(const std::string& name) {
    std::string all;
    for (const auto& [step, text] : testing::losses(scratch_.runs() / name)) all += std::to_string(step) + text + "\n";
    return all;
  }
  void expect_fine(const Finished& done) { ASSERT_EQ(done.code, 0) << done.out << done.err; }
  nlohmann::json config_of(const std::string& folder) {
    return nlohmann::json::parse(testing::read_file(scratch_.path() / folder / "config.json"));
  }
  Scratch scratch_;
};

TEST_F(WindowedModels, are_trained_resumed_measured_asked_and_exported) {
  for (const std::string family : {kMistral, kQwen3}) {
    const bool mistral = family == kMistral;
    const std::string name = mistral ? "mistral" : "qwen", out = name + "-out";
    describe(family);
    const std::string model = "config = \"config.json\"\n";
    expect_fine(train(name, model));
    expect_fine(train(name + "-part", model, {"--steps", "3"}));
    expect_fine(run(scratch_, {"resume", name + "-part", "--steps", "6"}));
    EXPECT_EQ(losses_of(name + "-part"), losses_of(name));
    expect_fine(run(scratch_, {"eval", name, "--device", "cpu"}));
    expect_fine(run(scratch_, {"generate", name, "--prompt", "the river", "--tokens", "30", "--device", "cpu"}));
    expect_fine(run(scratch_, {"export", name, "--to", out}));
    const auto config = config_of(out);
    EXPECT_EQ(config["architectures"][0], mistral ? "MistralForCausalLM" : "Qwen3ForCausalLM");
    EXPECT_EQ(config["sliding_window"], mistral ? 6 : 9);
    if (!mistral) {
      EXPECT_EQ(config["layer_types"], nlohmann::json(Words{"full_attention", "sliding_attention"}));
    }
    const Finished ours = run(scratch_, {"generate", name, "--prompt", "the", "--tokens", "40", "--device", "cpu"}),
                   theirs = run(scratch_, {"generate", out, "--prompt", "the", "--tokens", "40", "--device", "cpu"});
    EXPECT_EQ(ours.out, theirs.out);
  }
}

TEST_F(WindowedModels, are_adapted_whole_and_in_4_bits) {
  describe(kQwen3);
  expect_fine(train("base", "config = \"config.json\"\n"));
  for (const std::string quantize : {"", "quantize = \"nf4\"\n"}) {
    const std::string name = quantize.empty() ? "lora" : "qlora";
    expect_fine(
        train(name, "from = \"base\"\n" + quantize + "[lora]\nrank = 4\ntargets = \"q_proj,v_proj,down_proj\"\n"));
    expect_fine(run(scratch_, {"eval", name, "--device", "cpu"}));
    expect_fine(run(scratch_, {"export", name, "--as-adapter", "--to", name + "-adapter"}));
    expect_fine(run(scratch_, {"export", name, "--to", name + "-merged"}));
    EXPECT_EQ(config_of(name + "-merged")["sliding_window"], 9);
    expect_fine(run(scratch_, {"generate", "base", "--adapter", name + "-adapter", "--prompt", "the", "--tokens", "20",
                               "--device", "cpu"}));
  }
}

TEST_F(WindowedModels, lose_the_same_in_every_mode_and_on_several_ranks) {
  describe(kMistral);
  const auto loss = [&](const std::string& name) {
    const std::string text = testing::losses(scratch_.runs() / name).at(6);
    return std::stod(text.substr(text.find_first_of("0123456789")));
  };
  const std::string model = "config = \"config.json\"\n";
  expect_fine(train("fused", model, {"--train.optimize=fused"}));
  expect_fine(train("reference", model, {"--train.optimize=reference"}));
  expect_fine(train("full", model, {"--memory.recompute=full"}));
  EXPECT_NEAR(loss("fused"), loss("reference"), 2e-4);
  EXPECT_NEAR(loss("full"), loss("reference"), 2e-4);
  expect_fine(run(scratch_, Words{"launch", "-n", "2", "--logs", "logs", "--", "train", "recipe.toml", "--run", "two",
                                  "--device", "cpu", "--parallel", "dp=2", "--zero", "3"}));
  EXPECT_NEAR(loss("two"), loss("reference"), 2e-4);
}

TEST_F(WindowedModels, are_refused_by_the_name_of_what_is_not_known) {
  for (const auto& [family, named] : std::vector<std::pair<std::string, std::string>>{
           {R"("model_type": "qwen3", "rope_scaling": {"rope_type": "longrope", "factor": 2.0})",
            "rope_type = \"longrope\""},
           {R"("model_type": "qwen3", "rope_parameters": {"full_attention": {"rope_type": "default"}})",
            "full_attention"},
           {R"("model_type": "qwen3", "layer_types": ["full_attention", "sliding_attention"])", "use_sliding_window"},
           {R"("model_type": "mistral", "layer_types": ["full_attention", "sliding_attention"])", "layer_types"}}) {
    describe(family);
    const Finished done = train("x", "config = \"config.json\"\n");
    EXPECT_EQ(done.code, 2) << done.err;
    EXPECT_NE(testing::error_line(done).find(named), std::string::npos) << done.err;
  }
}

}  // namespace
}  // namespace hyperion
