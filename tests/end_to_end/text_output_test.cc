// What generate prints, of one text and of several, and what it refuses to read.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::read_file;
using testing::run;
using testing::Scratch;
using testing::write_file;
using testing::operator+;
using Words = std::vector<std::string>;
namespace fs = std::filesystem;

class TextOutput : public ::testing::Test {
 protected:
  TextOutput() {
    const auto recipe = testing::tiny_recipe(scratch_);
    const Finished done = run(scratch_, Words{"train", recipe, "--run", "sums", "--steps", "40", "--optim.lr=0.01",
                                              "--data.digits=1", "--eval.every=0", "--checkpoint.every=0"} +
                                            testing::device_flags());
    EXPECT_EQ(done.code, 0) << done.err;
  }
  Finished generate(const std::string& model, const Words& words) {
    return run(scratch_, Words{"generate", model, "--device", "cpu"} + words);
  }
  fs::path exported(const std::string& name) {
    EXPECT_EQ(run(scratch_, {"export", "sums", "--to", name}).code, 0);
    return scratch_.path() / name;
  }
  Scratch scratch_;
};

TEST_F(TextOutput, a_run_on_sums_ends_its_answer_with_the_line) {
  Words drawn = {"--temperature", "1", "--tokens", "43", "--json"};
  for (int i = 0; i < 10; ++i) drawn.insert(drawn.end(), {"--prompt", "1+" + std::to_string(i) + ":"});
  for (const std::string& model : {std::string("sums"), exported("folder").string()}) {
    size_t shorter = 0;
    for (const auto& text : nlohmann::json::parse(generate(model, drawn).out)) {
      EXPECT_EQ(text["text"].get<std::string>().find('\n'), std::string::npos) << text;
      shorter += text["text"].get<std::string>().size() < 40;
    }
    EXPECT_GT(shorter, 3u) << "the model knows of lines";
  }
}

TEST_F(TextOutput, json_is_a_list_of_one_text_too) {
  for (const Words& prompts : {Words{"--prompt", "1+1:"}, Words{"--prompt", "1+1:", "--prompt", "2+2:"}}) {
    const auto json = nlohmann::json::parse(generate("sums", prompts + Words{"--json", "--tokens", "3"}).out);
    ASSERT_TRUE(json.is_array());
    ASSERT_EQ(json.size(), prompts.size() / 2);
    EXPECT_EQ(json[0]["prompt"], "1+1:");
  }
}

TEST_F(TextOutput, several_texts_are_told_apart) {
  const std::string several = generate("sums", {"--prompt", "1+1:", "--prompt", "2+2:", "--tokens", "3"}).out;
  EXPECT_EQ(several.find("--- 1 of 2 ---\n1+1:"), 0u) << several;
  EXPECT_NE(several.find("\n--- 2 of 2 ---\n2+2:"), std::string::npos) << several;
  EXPECT_EQ(generate("sums", {"--prompt", "1+1:", "--tokens", "3"}).out.find("1+1:"), 0u);
}

TEST_F(TextOutput, an_adapter_is_called_as_its_folder_is) {
  write_file(scratch_.path() / "lora.toml",
             "[train]\nsteps = 6\nbatch = 8\nlength = 24\n[data]\ndigits = 2\n[model]\nfrom = \"sums\"\n[lora]\nrank "
             "= 2\n[optim]\nwarmup = 2\nlr = 0.01\n");
  ASSERT_EQ(run(scratch_, Words{"train", "lora.toml", "--run", "tuned"} + testing::device_flags()).code, 0);
  ASSERT_EQ(run(scratch_, {"export", "tuned", "--as-adapter", "--to", "my-lora.v2"}).code, 0);
  const Words ask = {"--prompt", "12+34:", "--tokens", "6"};
  const Finished named = generate("sums", Words{"--adapter", "mine=my-lora.v2", "--use", "mine"} + ask);
  ASSERT_EQ(named.code, 0) << named.err;
  for (const std::string folder : {"my-lora.v2", "./my-lora.v2/"}) {
    const Finished bare = generate("sums", Words{"--adapter", folder, "--use", "my-lora_v2"} + ask);
    EXPECT_EQ(bare.code, 0) << bare.err;
    EXPECT_EQ(bare.out, named.out);
  }
}

TEST_F(TextOutput, weights_that_are_not_finite_are_an_error_and_no_text) {
  const fs::path folder = exported("broken");
  std::string bytes = read_file(folder / "model.safetensors");
  std::fill(bytes.end() - 4096, bytes.end(), '\xff');  // fp32: not a number
  write_file(folder / "model.safetensors", bytes);
  const Finished done = generate(folder.string(), {"--prompt", "1+1:"});
  EXPECT_EQ(done.code, 1) << done.out;
  EXPECT_EQ(done.out, "");
  EXPECT_NE(testing::error_line(done).find("weights are not finite"), std::string::npos) << done.err;
}

TEST_F(TextOutput, a_pipe_or_a_device_in_a_models_folder_is_refused_at_once) {
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors.index.json"}) {
    const fs::path folder = exported(std::string("with-") + name);
    if (std::string(name).starts_with("model")) fs::remove(folder / "model.safetensors");
    fs::remove(folder / name);
    ASSERT_EQ(::mkfifo((folder / name).c_str(), 0600), 0);
    testing::Program program(scratch_, {"generate", folder.string(), "--prompt", "1+1:", "--device", "cpu"});
    ASSERT_TRUE(program.ends_within(60)) << name;
    const Finished done = program.wait();
    EXPECT_EQ(done.code, 1) << name << done.out;
    EXPECT_NE(done.err.find(std::string(name) + ", a pipe"), std::string::npos) << done.err;
  }
  const fs::path folder = exported("endless");
  fs::remove(folder / "config.json");
  fs::create_symlink("/dev/zero", folder / "config.json");
  EXPECT_NE(generate(folder.string(), {"--prompt", "1+1:"}).err.find("config.json, a device"), std::string::npos);
}

TEST_F(TextOutput, prompts_may_come_through_a_pipe) {
  ASSERT_EQ(::mkfifo((scratch_.path() / "prompts").c_str(), 0600), 0);
  testing::Program program(scratch_, {"generate", "sums", "--prompts", "prompts", "--tokens", "2", "--device", "cpu"});
  write_file(scratch_.path() / "prompts", "1+1:\n2+2:\n");
  EXPECT_NE(program.wait().out.find("2 of 2"), std::string::npos);
}

TEST_F(TextOutput, names_with_a_nul_byte_are_refused) {
  const fs::path folder = exported("nul");
  fs::rename(folder / "model.safetensors", folder / "a");
  write_file(folder / "model.safetensors.index.json",
             R"({"weight_map": {"transformer.wte.weight": "a\u0000.safetensors"}})");
  const Finished done = generate(folder.string(), {"--prompt", "1+1:"});
  EXPECT_EQ(done.code, 1);
  EXPECT_NE(done.err.find("is not in a .safetensors file of this folder"), std::string::npos) << done.err;
}

TEST_F(TextOutput, the_way_to_convert_a_pickle_can_be_pasted_whatever_the_folder_is_called) {
  const fs::path folder = exported("it's $(touch x)");
  fs::rename(folder / "model.safetensors", folder / "pytorch_model.bin");
  const Finished done = generate(folder.string(), {"--prompt", "1+1:"});
  EXPECT_EQ(done.code, 1);
  EXPECT_NE(done.err.find("/it'\\''s $(touch x)' '"), std::string::npos) << done.err;
}

TEST_F(TextOutput, a_model_that_cannot_be_exported_is_said_when_its_run_begins) {
  write_file(scratch_.path() / "resnet.toml",
             "[train]\nsteps = 1\nbatch = 8\n[data]\nsource = \"shapes\"\nimages = 60\n[eval]\nbatches = 1\n"
             "[model]\npreset = \"resnet18-cifar\"\nimage = 16\n[optim]\nwarmup = 0\n");
  const Finished done = run(scratch_, Words{"train", "resnet.toml", "--run", "rn"} + testing::device_flags());
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE((done.out + done.err).find("cannot be exported: transformers has no hyperion_stem"), std::string::npos)
      << done.err;
}

}  // namespace
}  // namespace hyperion
