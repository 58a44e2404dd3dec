// What people type who come from other trainers is answered with what it is called here.
#include <gtest/gtest.h>

#include "hyperion/base/other_words.h"
#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

using testing::run;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

class OtherTrainers : public ::testing::Test {
 protected:
  void expect_hint(const Words& arguments, const std::string& hint) {
    std::string command;
    for (const auto& word : arguments) command += " " + word;
    const auto done = run(scratch_, arguments);
    EXPECT_EQ(done.code, 2) << command << "\n" << done.err;
    EXPECT_NE(testing::hint_line(done).find(hint), std::string::npos) << command << "\n" << done.err;
    EXPECT_EQ(done.out, "") << command;
  }
  Scratch scratch_;
};

TEST_F(OtherTrainers, flags_of_train_are_answered_with_our_own) {
  const std::pair<const char*, const char*> flags[] = {
      {"--lr", "--optim.lr"},         {"--learning-rate", "--optim.lr"},  {"--batch-size", "--train.batch"},
      {"--epochs", "--train.epochs"}, {"--max-steps", "--train.steps"},   {"--model", "--model.preset"},
      {"--output", "--run NAME"},     {"--gpus", "hyperion launch -n N"}, {"--nproc-per-node", "hyperion launch -n N"},
      {"--warmup", "--optim.warmup"}};
  for (const auto& [flag, hint] : flags) expect_hint({"train", "x.toml", flag, "3"}, hint);
  expect_hint({"train", "x.toml", "--fp16"}, "--train.precision=fp16");
  expect_hint({"train", "x.toml", "--bf16"}, "--train.precision=bf16");
  expect_hint({"train", "x.toml", "optim.lr=3"}, "did you mean --optim.lr?");
  expect_hint({"config", "show", "--device", "gpu"}, "did you mean \"cuda\"?");
  expect_hint({"config", "show", "--train.lr=1"}, "did you mean optim.lr?");
  expect_hint({"config", "show", "--zzzzzz"}, "`hyperion config show --help` lists the flags");
}

TEST_F(OtherTrainers, flags_of_other_commands_are_answered_as_those_take_them) {
  for (const char* verb : {"eval", "generate", "chat"}) {
    expect_hint({verb, "--model.from=./x"}, "the model is named without a flag");
    expect_hint({verb, "--model", "x"}, "the model is named without a flag");
  }
  expect_hint({"export", "--model.from", "x", "--to", "y"}, "the model is named without a flag");
  expect_hint({"probe", "--model.from", "x", "--input", "y", "--output", "z"}, "the model is named without a flag");
  expect_hint({"generate", "x", "--max-new-tokens", "3"}, "write --tokens N");
  expect_hint({"eval", "x", "--lora", "y"}, "write --adapter FOLDER");
  expect_hint({"eval", "x", "--data.path=y"}, "write --set FOLDER");
  expect_hint({"eval", "x", "--dataset", "y"}, "write --set FOLDER");
  expect_hint({"eval", "x", "--train.batch=3"}, "a model is used as it was trained");
  expect_hint({"bench", "train", "tiny", "--batch-size", "3"}, "--set train.batch=VALUE");
  expect_hint({"launch", "--nproc-per-node", "2", "--", "train", "x"}, "write -n N");
  expect_hint({"launch", "-n", "2", "--lr", "2", "--", "train", "x"}, "-- train RECIPE --optim.lr=VALUE");
  expect_hint({"launch", "-n", "2", "--", "finetune", "x"}, "`hyperion train`");
  const auto device = run(scratch_, {"generate", "x", "--prompt", "a", "--device", "gpu"});
  EXPECT_NE(device.err.find("did you mean cuda?"), std::string::npos) << device.err;
}

TEST_F(OtherTrainers, commands_are_answered_with_our_own) {
  const std::pair<const char*, const char*> commands[] = {
      {"serve", "there is no server"},   {"finetune", "`hyperion train`"}, {"fine-tune", "`hyperion train`"},
      {"test", "`hyperion eval`"},       {"infer", "`hyperion generate`"}, {"help", "`hyperion --help`"},
      {"predict", "`hyperion generate`"}};
  for (const auto& [word, hint] : commands) expect_hint({word, "x"}, hint);
  expect_hint({"runs", "list"}, "`hyperion runs ls`");
  const std::string help = run(scratch_, {"--help"}).out;
  for (const auto& name : base::commands_named_for_other_words())
    EXPECT_TRUE(name.starts_with("-") || help.find("\n  " + name + " ") != std::string::npos) << name;
}

TEST_F(OtherTrainers, keys_of_a_recipe_are_answered_with_our_own) {
  const std::pair<const char*, const char*> keys[] = {{"learning_rate", "optim.lr"},
                                                      {"num_train_epochs", "train.epochs"},
                                                      {"per_device_train_batch_size", "train.batch"},
                                                      {"gradient_accumulation_steps", "train.accumulate"},
                                                      {"max_steps", "train.steps"},
                                                      {"batch_size", "train.batch"}};
  for (const auto& [key, setting] : keys) {
    testing::write_file(scratch_.path() / "theirs.toml", std::string("[train]\n") + key + " = 3\n");
    expect_hint({"train", "theirs.toml"}, std::string("did you mean ") + setting);
  }
}

}  // namespace
}  // namespace hyperion
