#include "hyperion/base/other_words.h"

#include <gtest/gtest.h>

#include <array>

#include "hyperion/base/config.h"
#include "hyperion/base/error.h"

namespace hyperion::base {
namespace {

bool tells(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST(OtherWords, are_known_in_any_spelling_of_flags_and_keys) {
  for (const char* word : {"learning_rate", "learning-rate", "--learning-rate", "--Learning_Rate=1e-3", "lr"})
    EXPECT_EQ(setting_hint(word), "did you mean optim.lr?") << word;
  for (const char* word : {"", "--", "=", "learn", "--optim.lr"}) EXPECT_EQ(setting_hint(word), "") << word;
}

TEST(OtherWords, that_count_otherwise_here_say_how) {
  EXPECT_TRUE(tells(setting_hint("num_train_epochs"), "train.epochs? in place of train.steps"));
  EXPECT_TRUE(tells(setting_hint("per_device_train_batch_size"), "train.batch? it counts the samples of one update"));
  EXPECT_TRUE(tells(setting_hint("gradient_accumulation_steps"), "train.accumulate? it cuts train.batch"));
  EXPECT_EQ(setting_hint("bf16"), "did you mean train.precision = \"bf16\"?");
}

TEST(OtherWords, of_flags_are_answered_as_the_command_takes_settings) {
  EXPECT_EQ(flag_hint("--max-steps", FlagOf::settings), "did you mean --train.steps=VALUE?");
  EXPECT_EQ(flag_hint("--fp16", FlagOf::settings), "did you mean --train.precision=fp16?");
  EXPECT_TRUE(tells(flag_hint("--batch-size", FlagOf::set), "--set train.batch=VALUE"));
  EXPECT_TRUE(tells(flag_hint("--lr", FlagOf::launch), "-- train RECIPE --optim.lr=VALUE"));
  EXPECT_TRUE(tells(flag_hint("--nproc-per-node", FlagOf::launch), "write -n N"));
  EXPECT_TRUE(tells(flag_hint("--gpus", FlagOf::settings), "hyperion launch -n N"));
  EXPECT_TRUE(tells(flag_hint("--model.from", FlagOf::model), "the model is named without a flag"));
  EXPECT_TRUE(tells(flag_hint("--model", FlagOf::settings), "model.preset"));
  EXPECT_TRUE(tells(flag_hint("--data.path=x", FlagOf::eval), "write --set FOLDER"));
  EXPECT_TRUE(tells(flag_hint("--dataset", FlagOf::eval), "write --set FOLDER"));
  EXPECT_TRUE(tells(flag_hint("--model.from", FlagOf::eval), "the model is named without a flag"));
  EXPECT_TRUE(tells(flag_hint("--dataset", FlagOf::model), "a model is used as it was trained"));
}

TEST(OtherWords, of_values_are_meant_only_among_the_choices) {
  EXPECT_EQ(choice_meant("gpu", {"auto", "cpu", "cuda"}), "cuda");
  EXPECT_EQ(choice_meant("gpu", {"auto", "gpus"}), "gpus") << "the nearest in spelling";
  EXPECT_EQ(choice_meant("bfloat16", {"fp32", "bf16"}), "bf16");
  EXPECT_EQ(choice_meant("zzz", {"fp32", "bf16"}), "");
}

enum class Device { cpu, cuda };
constexpr auto words_of(Device) { return std::array{"cpu", "cuda"}; }

class OtherKeys : public ::testing::Test {
 protected:
  std::string hint_of(const std::string& toml) {
    Settings settings;
    settings.section("train", "").integer("steps", steps_, {1, 100}, "").choice("device", device_, "");
    settings.section("optim", "").real("lr", lr_, {0, 1}, "");
    try {
      settings.read_toml(toml, "recipe");
    } catch (const ConfigError& error) {
      return error.hint();
    }
    return "accepted";
  }
  int64_t steps_ = 1;
  double lr_ = 0;
  Device device_ = Device::cpu;
};

TEST_F(OtherKeys, of_recipes_are_answered_with_our_own) {
  EXPECT_EQ(hint_of("[train]\nlearning_rate = 1"), "did you mean optim.lr?");
  EXPECT_EQ(hint_of("[train]\nlr = 1"), "did you mean optim.lr?") << "a key of another section";
  EXPECT_EQ(hint_of("[optimizer]\nlr = 1"), "did you mean optim.lr?");
  EXPECT_EQ(hint_of("[training]\nmax_steps = 1"), "did you mean train.steps?");
  EXPECT_EQ(hint_of("[training]\n"), "did you mean [train]?");
  EXPECT_EQ(hint_of("max_steps = 3"), "did you mean train.steps? (settings stand under a [section] header)");
  EXPECT_EQ(hint_of("[train]\ndevice = \"gpu\""), "did you mean \"cuda\"?");
}

}  // namespace
}  // namespace hyperion::base
