// A run that was trained beside 4-bit weights is measured and used in 4 bits, and says so.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::read_file;
using testing::run;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

constexpr const char* kRecipe =
    "[train]\nsteps = 6\nbatch = 8\nlength = 20\n[model]\nlayers = 2\nheads = 2\nwidth = 64\ncontext = 32\n"
    "[data]\nsource = \"text\"\npath = \"words.txt\"\n[optim]\nlr = 1e-2\nwarmup = 2\n[eval]\nbatches = 2\n";
constexpr const char* kAdapted =
    "[train]\nsteps = 6\nbatch = 8\nlength = 20\n[model]\nfrom = \"base\"\nquantize = \"nf4\"\n[lora]\nrank = 4\n"
    "[data]\nsource = \"text\"\npath = \"words.txt\"\n[optim]\nlr = 1e-2\nwarmup = 2\n[eval]\nbatches = 2\n";

class Quantized : public ::testing::Test {
 protected:
  Quantized() {
    std::string words;
    for (int i = 0; i < 900; ++i) words += "the river " + std::to_string(i * i % 89) + (i % 7 == 0 ? ".\n" : " and ");
    testing::write_file(scratch_.path() / "words.txt", words);
    testing::write_file(scratch_.path() / "base.toml", kRecipe);
    testing::write_file(scratch_.path() / "qlora.toml", kAdapted);
    expect_fine(train("base", "base", {}));
  }
  static void expect_fine(const Finished& done) { ASSERT_EQ(done.code, 0) << done.out << done.err; }
  Finished train(const std::string& recipe, const std::string& name, const Words& flags) {
    return run(scratch_, Words{"train", recipe + ".toml", "--run", name} + testing::device_flags() + flags);
  }
  // Training's own last validation.
  double last_validation(const std::string& name) {
    std::ifstream lines(scratch_.runs() / name / "metrics.jsonl");
    double loss = -1;
    for (std::string line; std::getline(lines, line);)
      if (const auto json = nlohmann::json::parse(line); json.contains("split")) loss = json["loss"];
    return loss;
  }
  Words device() const {
    const auto flags = testing::device_flags();
    return {flags.begin(), flags.begin() + 2};
  }
  Finished eval(const std::string& model, const Words& flags = {}) {
    return run(scratch_, Words{"eval", model, "--json"} + device() + flags);
  }
  static double loss_of(const Finished& done) {
    EXPECT_EQ(done.code, 0) << done.err;
    return nlohmann::json::parse(done.out)["loss"];
  }
  Finished probe(const std::string& model, const Words& flags = {}) {
    std::string header = R"({"input_ids":{"dtype":"I64","shape":[1,4],"data_offsets":[0,32]}})";
    std::string bytes(8, '\0');
    bytes[0] = static_cast<char>(header.size());
    bytes += header;
    for (const char id : {116, 104, 101, 32}) bytes += std::string(1, id) + std::string(7, '\0');
    testing::write_file(scratch_.path() / "in.safetensors", bytes);
    return run(scratch_, Words{"probe", model, "--input", "in.safetensors", "--output", "out.safetensors"} + flags);
  }
  std::string logits(const std::string& model, const Words& flags = {}) {
    expect_fine(probe(model, flags));
    return read_file(scratch_.path() / "out.safetensors");
  }
  Scratch scratch_;
};

TEST_F(Quantized, training_and_generating_say_that_weights_are_in_4_bits) {
  const Finished trained = train("qlora", "q", {});
  EXPECT_NE(trained.err.find("the frozen weights in 4 bits (nf4)"), std::string::npos) << trained.err;
  const Words prompt = Words{"--prompt", "the", "--tokens", "1", "--json"} + device();
  const Finished said = run(scratch_, Words{"generate", "q"} + prompt);
  EXPECT_NE(said.err.find("weights in 4 bits (nf4)"), std::string::npos) << said.err;
  const auto quantized = nlohmann::json::parse(said.out)[0];
  EXPECT_EQ(quantized["quantize"], "nf4");
  EXPECT_EQ(quantized["adapter"], "default");
  const auto whole = nlohmann::json::parse(run(scratch_, Words{"generate", "base"} + prompt).out)[0];
  EXPECT_EQ(whole["quantize"], "none");
  EXPECT_EQ(whole["adapter"], nullptr);
}

TEST_F(Quantized, eval_is_trainings_own_last_validation_to_the_last_digit) {
  for (const std::string precision : {"fp32", "bf16"}) {
    expect_fine(train("qlora", "q-" + precision, {"--precision", precision}));
    const Finished done = eval("q-" + precision);
    EXPECT_EQ(loss_of(done), last_validation("q-" + precision)) << precision;
    EXPECT_NE(done.err.find("4 bits (nf4), as the run was trained"), std::string::npos) << done.err;
  }
  const Finished whole = eval("q-fp32", {"--quantize", "none"});
  EXPECT_NE(loss_of(whole), last_validation("q-fp32"));
  EXPECT_NE(whole.err.find("whole"), std::string::npos) << whole.err;
  const std::string step = scratch_.runs() / "q-fp32/checkpoints/step-6";
  EXPECT_EQ(loss_of(eval(step)), last_validation("q-fp32"));
}

TEST_F(Quantized, a_run_with_an_adapter_beside_whole_weights_is_measured_in_the_type_it_was_trained_in) {
  expect_fine(train("qlora", "lora", {"--precision", "bf16", "--model.quantize=none"}));
  const Finished done = eval("lora");
  EXPECT_EQ(loss_of(done), last_validation("lora"));
  EXPECT_EQ(done.err.find("4 bits"), std::string::npos) << done.err;
}

TEST_F(Quantized, every_command_that_asks_the_model_asks_the_one_that_was_trained) {
  expect_fine(train("qlora", "q", {}));
  const std::string own = logits("q"), whole = logits("q", {"--quantize", "none"});
  EXPECT_NE(own, whole);
  std::filesystem::copy(scratch_.runs() / "q/checkpoints/step-6", scratch_.path() / "step-6");
  EXPECT_EQ(logits((scratch_.path() / "step-6").string()), own) << "a checkpoint alone knows it too";
  EXPECT_NE(logits("base", {"--quantize", "nf4"}), logits("base"));
  const Finished said = run(scratch_, Words{"generate", "q", "--prompt", "the", "--tokens", "4"} + device());
  expect_fine(said);
  EXPECT_NE(said.err.find("4 bits"), std::string::npos) << said.err;
}

TEST_F(Quantized, an_export_holds_the_base_as_it_is_and_says_so) {
  expect_fine(train("qlora", "q", {}));
  const Finished alone = run(scratch_, {"export", "q", "--as-adapter", "--to", "peft"});
  expect_fine(alone);
  EXPECT_NE(alone.err.find("4-bit"), std::string::npos) << alone.err;
  expect_fine(run(scratch_, {"export", "q", "--to", "merged"}));
  const std::string whole = logits("q", {"--quantize", "none"});
  EXPECT_EQ(logits("base", {"--adapter", "peft"}), whole) << "a PEFT folder does not know of 4 bits";
  EXPECT_EQ(logits("base", {"--adapter", "peft", "--quantize", "nf4"}), logits("q"));
  EXPECT_EQ(train("qlora", "on", {"--model.from=q", "--steps=2", "--optim.warmup=0"}).code, 0);
}

}  // namespace
}  // namespace hyperion
