// MODEL as it may be named wrongly, and where a model may be written.
#include <gtest/gtest.h>

#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

using testing::run;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

class ModelArgument : public ::testing::Test {
 protected:
  void expect_refused(const Words& arguments, const std::string& error, const std::string& hint) {
    std::string command;
    for (const auto& word : arguments) command += " " + word;
    const auto done = run(scratch_, arguments);
    EXPECT_EQ(done.code, 2) << command << "\n" << done.err;
    EXPECT_NE(testing::error_line(done).find(error), std::string::npos) << command << "\n" << done.err;
    EXPECT_NE(testing::hint_line(done).find(hint), std::string::npos) << command << "\n" << done.err;
  }
  void make_run(const std::string& name, const Words& flags = {}) {
    testing::write_file(scratch_.path() / "small.toml",
                        "[train]\nsteps = 2\nbatch = 4\nlength = 20\n[eval]\nbatches = 1\n[data]\ndigits = 2\n");
    const Words sizes = {"--model.layers=1", "--model.heads=2", "--model.width=32", "--model.context=32"};
    const auto done =
        run(scratch_, Words{"train", "small.toml", "--device", "cpu", "--run", name} + (flags.empty() ? sizes : flags));
    ASSERT_EQ(done.code, 0) << done.err;
  }
  std::vector<Words> every_verb(const std::string& model) const {
    return {{"eval", model},
            {"generate", model, "--prompt", "1"},
            {"chat", model},
            {"export", model, "--to", "out"},
            {"probe", model, "--input", "in", "--output", "out"},
            {"resume", model}};
  }
  Scratch scratch_;
};

TEST_F(ModelArgument, a_path_that_is_not_there_is_no_name_of_a_run) {
  std::filesystem::create_directories(scratch_.path() / "llama");
  for (const auto& words : every_verb("./nothing"))
    expect_refused(words, "there is no folder ./nothing", "hyperion runs ls");
  for (const auto& words : every_verb("./lama"))
    expect_refused(words, "there is no folder ./lama", "did you mean ./llama?");
  expect_refused({"eval", "below/nothing/"}, "there is no folder below/nothing/", "hyperion runs ls");
  expect_refused({"eval", "~/nothing"}, "there is no folder ~/nothing", "$HOME");
}

TEST_F(ModelArgument, a_name_is_looked_for_among_the_runs_and_here) {
  make_run("good");
  expect_refused({"eval", "god"}, "no run called \"god\" in", "did you mean good?");
  expect_refused({"eval", "zzzzz"}, "and no folder of that name here", "hyperion runs ls");
  expect_refused({"eval", "runs/god"}, "there is no folder runs/god", "did you mean runs/good?");
  testing::write_file(scratch_.path() / "model.safetensors", "");
  expect_refused({"eval", "model.safetensors"}, "model.safetensors is a file, and a model is a folder", "config.json");
  std::filesystem::create_directories(scratch_.path() / "empty");
  expect_refused({"resume", "empty"}, "empty is no run", "hyperion runs ls");
  expect_refused({"resume", "./empty"}, "./empty is no run", "hyperion runs ls");
}

TEST_F(ModelArgument, an_export_goes_to_a_folder_that_can_be_made) {
  make_run("good");
  expect_refused({"export", "good", "--to", ""}, "--to: must not be empty", "export --help");
  std::filesystem::create_symlink("nowhere", scratch_.path() / "link");
  expect_refused({"export", "good", "--to", "link"}, "link is a link to nowhere, which is not there",
                 "remove the link");
  std::filesystem::create_directories(scratch_.path() / "there");
  std::filesystem::create_directory_symlink("there", scratch_.path() / "other");
  expect_refused({"export", "good", "--to", "other"}, "other already exists", "remove that one");
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.path() / "there"));
  for (const auto& entry : std::filesystem::directory_iterator(scratch_.path()))
    EXPECT_EQ(entry.path().string().find(".partial"), std::string::npos) << entry.path();
}

TEST_F(ModelArgument, gradients_beside_weights_in_4_bits_are_the_adapters_alone) {
  make_run("base", {"--model.layers=1", "--model.heads=2", "--model.width=64", "--model.context=32"});
  make_run("adapted", {"--model.from=base", "--lora.rank=2"});
  std::string header = R"({"input_ids":{"dtype":"I64","shape":[1,4],"data_offsets":[0,32]},)"
                       R"("labels":{"dtype":"I64","shape":[1,4],"data_offsets":[32,64]}})";
  while (header.size() % 8 != 0) header += ' ';
  std::string bytes = std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header;
  for (const char id : {49, 43, 50, 58, 49, 43, 50, 58}) bytes += std::string(1, id) + std::string(7, '\0');
  testing::write_file(scratch_.path() / "in", bytes);
  const auto probe = [](const std::string& model) {
    return Words{"probe", model, "--input", "in", "--output", "out", "--grads", "--quantize", "nf4"};
  };
  expect_refused(probe("base"), "--grads needs weights that can be trained", "name an adapter with --adapter");
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "out"));
  const auto done = run(scratch_, probe("adapted"));
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(testing::read_file(scratch_.path() / "out").find("lora_A.weight"), std::string::npos);
  ASSERT_EQ(run(scratch_, {"export", "adapted", "--as-adapter", "--to", "peft"}).code, 0);
  EXPECT_EQ(run(scratch_, probe("base") + Words{"--adapter", "peft"}).code, 0);
  const auto second = run(scratch_, probe("adapted") + Words{"--adapter", "peft"});
  EXPECT_EQ(second.code, 0) << "the gradients of the adapter that is named: " << second.err;
}

TEST_F(ModelArgument, an_export_notes_the_4_bits_of_its_run_once_it_is_written) {
  make_run("base", {"--model.layers=1", "--model.heads=2", "--model.width=64", "--model.context=32"});
  make_run("packed", {"--model.from=base", "--lora.rank=2", "--model.quantize=nf4"});
  std::filesystem::create_directories(scratch_.path() / "there");
  EXPECT_EQ(run(scratch_, {"export", "packed", "--to", "there"}).err.find("4-bit"), std::string::npos)
      << "nothing was exported";
  const auto whole = run(scratch_, {"export", "packed", "--to", "whole"});
  EXPECT_NE(whole.err.find("the base itself is exported whole"), std::string::npos) << whole.err;
  const auto alone = run(scratch_, {"export", "packed", "--as-adapter", "--to", "alone"});
  EXPECT_NE(alone.err.find("its folder cannot say so: --quantize nf4"), std::string::npos) << alone.err;
}

TEST_F(ModelArgument, an_adapter_that_does_not_fit_is_named) {
  make_run("base");
  make_run("adapted", {"--model.from=base", "--lora.rank=2"});
  ASSERT_EQ(run(scratch_, {"export", "adapted", "--as-adapter", "--to", "peft"}).code, 0);
  const auto path = scratch_.path() / "peft/adapter_config.json";
  std::string config = testing::read_file(path);
  const size_t at = config.find("\"target_modules\"");
  config.replace(at, config.find(']', at) + 1 - at, "\"target_modules\": [\"q_proj\"]");
  testing::write_file(path, config);
  expect_refused({"generate", "base", "--adapter", "peft", "--prompt", "1"}, "adapter peft: no layer of the model",
                 "its linear layers");
  expect_refused({"generate", "adapted", "--use", "other", "--prompt", "1"}, "the model has no adapter \"other\"",
                 "it has default");
}

}  // namespace
}  // namespace hyperion
