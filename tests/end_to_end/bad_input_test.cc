// Input that cannot be meant: a clear error with its place and a hint, the right exit code, and not a file touched.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>

#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::run;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

class BadInput : public ::testing::Test {
 protected:
  void expect_refused(const Words& arguments, const std::string& error, const std::string& hint, int code = 2,
                      const std::map<std::string, std::string>& environment = {}) {
    std::string command;
    for (const auto& word : arguments) command += " " + word;
    SCOPED_TRACE("hyperion" + command);
    const Finished done = run(scratch_, arguments, environment);
    EXPECT_EQ(done.code, code) << done.err;
    EXPECT_NE(testing::error_line(done).find(error), std::string::npos) << done.err;
    EXPECT_NE(testing::hint_line(done).find(hint), std::string::npos) << done.err;
    EXPECT_EQ(done.out, "");
  }

  void expect_recipe_refused(const std::string& text, const std::string& error, const std::string& hint,
                             const Words& flags = {}) {
    testing::write_file(scratch_.path() / "bad.toml", text);
    expect_refused(Words{"train", "bad.toml", "--run", "bad"} + flags, error, hint);
    EXPECT_FALSE(std::filesystem::exists(scratch_.runs())) << text;
  }

  Words train(const std::string& name) {
    return {"train", testing::tiny_recipe(scratch_), "--device", "cpu", "--run", name};
  }
  // A finished run called "good".
  void make_run() {
    const Finished done =
        run(scratch_, train("good") + Words{"--steps", "4", "--checkpoint.every", "2"} + testing::text_data(scratch_));
    ASSERT_EQ(done.code, 0) << done.err;
  }

  Scratch scratch_;
};

TEST_F(BadInput, a_recipe_is_refused_with_line_and_column) {
  expect_recipe_refused("[train]\nstps = 3\n", "unknown setting train.stps, bad.toml:2:1", "did you mean train.steps?");
  expect_recipe_refused("[trian]\nsteps = 3\n", "unknown setting trian.steps, bad.toml:2:1",
                        "did you mean train.steps?");
  expect_recipe_refused("[train]\nsteps = \"3\"\n", "train.steps must be a whole number", "1 to 1000000000");
  expect_recipe_refused("[train]\ndeterministic = 1\n", "must be true or false", "for example deterministic = false");
  expect_recipe_refused("[train]\nsteps = 0\n", "train.steps = 0 is out of range, bad.toml:2:9", "1 to 1000000000");
  expect_recipe_refused("[optim]\nlr = nan\n", "optim.lr = nan is out of range, bad.toml:2:6", "0 to 100");
  expect_recipe_refused("[train]\ndevice = \"cdua\"\n", "is not one of auto, cpu, cuda, bad.toml:2:10",
                        "did you mean \"cuda\"?");
  expect_recipe_refused("steps = 3\n", "steps stands outside any section, bad.toml:1:1", "put it under [train]");
  expect_recipe_refused("train = 3\n", "train must be a section, bad.toml:1:1", "write [train]");
  expect_recipe_refused("[train\n", "bad.toml:1:7", "must be TOML");
  expect_recipe_refused("[train]\nsteps = 3\nsteps = 4\n", "steps is set twice, bad.toml:3:", "leave one of them out");
  expect_recipe_refused(std::string("\x7f"
                                    "ELF\2\1\1\0\0\0\xff\xfe",
                                    12),
                        "bad.toml:1:", "must be TOML");
}

TEST_F(BadInput, contradictory_settings_are_refused_with_the_place_of_each) {
  expect_recipe_refused("[train]\nbatch = 8\naccumulate = 3\n",
                        "train.batch from bad.toml:2:1, train.accumulate from bad.toml:3:1", "equal parts");
  expect_recipe_refused("[model]\nheads = 3\n", "model.heads = 3 does not divide model.width", "multiple of the heads");
  expect_recipe_refused("[train]\nlength = 64\n", "train.length from bad.toml:2:1, model.context from --model.context",
                        "raise model.context", {"--model.context=32"});
  expect_recipe_refused("[data]\npath = \"x\"\n", "data.path from bad.toml:2:1", "--data.source=text");
  expect_recipe_refused("[data]\ndigits = 12\n", "cannot hold a question of data.digits = 12", "raise model.context",
                        {"--model.context=16", "--train.length=16"});
}

TEST_F(BadInput, what_is_no_recipe_is_refused_without_reading_it) {
  expect_refused({"train", "nothere.toml"}, "no recipe at nothere.toml", "hyperion init");
  expect_refused({"train", ""}, "no recipe was named", "recipes/quickstart.toml");
  testing::write_file(scratch_.path() / "mine.toml", "");
  expect_refused({"train", "mine"}, "no recipe at mine", "did you mean mine.toml?");
  expect_refused({"train", scratch_.path()}, "is a folder, not a recipe", "TOML file");
  expect_refused({"train", "/dev/zero"}, "is a device, not a recipe", "TOML file");
  testing::write_file(scratch_.path() / "long.toml", "");
  std::filesystem::resize_file(scratch_.path() / "long.toml", 100 << 20);
  expect_refused({"config", "show", "long.toml"}, "has 100.0 MiB: too long for a recipe", "data.path");
  EXPECT_EQ(run(scratch_, {"config", "show", "mine.toml"}).code, 0) << "an empty recipe means the defaults";
}

TEST_F(BadInput, environment_and_flags_are_refused_by_name) {
  const Words show = {"config", "show"};
  expect_refused(show, "unknown setting train.step, environment variable HYPERION_TRAIN__STEP",
                 "did you mean train.steps?", 2, {{"HYPERION_TRAIN__STEP", "3"}});
  expect_refused(show, "must be a whole number, not \"many\", environment variable HYPERION_TRAIN__STEPS",
                 "1 to 1000000000", 2, {{"HYPERION_TRAIN__STEPS", "many"}});
  expect_refused(show, "environment variable HYPERION___X", "lists all settings", 2, {{"HYPERION___X", "3"}});
  expect_refused(show + Words{"--optim.lrr=3"}, "unknown setting optim.lrr, --optim.lrr", "did you mean optim.lr?");
  expect_refused(show + Words{"--optim.lr"}, "--optim.lr needs a value", "--optim.lr=VALUE");
  expect_refused(show + Words{"--step", "3"}, "unexpected argument --step", "did you mean --steps?");
  expect_refused(show + Words{"--steps", "5", "--steps", "6"}, "--steps is given more than once", "leave all but one");
  expect_refused(show + Words{"--steps", "5", "--train.steps=6"},
                 "train.steps is given twice: --steps=5 and --train.steps=6", "leave one of them out");
  expect_refused(show + Words{"--optim.lr=1", "--optim.lr=2"}, "optim.lr is given twice", "leave one of them out");
  EXPECT_EQ(run(scratch_, show + Words{"--optim.lr=1", "--optim.lr=1"}).code, 0) << "that contradicts nothing";
  expect_refused(show + Words{"--deterministic=layuot"}, "\"layuot\" is not one of true, false, layout",
                 "config show --help");
  expect_refused({"train", "x.toml", "--or-resume"}, "--or-resume needs to know which run", "add --run NAME");
  expect_refused({"launch", "-n", "4", "--emit", "slurm", "--", "/opt/hyperion", "train", "x.toml"},
                 "--emit puts hyperion before the command itself", "write -- train ...");
  const auto emit = [](const std::string& flag, const std::string& value) {
    return Words{"launch", "-n", "4", "--emit", "jobset", flag, value, "--", "train", "x.toml"};
  };
  for (const char* name : {"1abc", "A", "a-", "", "a-name-that-is-longer-than-forty-letters-is"})
    expect_refused(emit("--name", name), "a letter and at most 39 small letters, digits and hyphens", "launch --help");
  for (const char* image : {"a: b", "{x}", "", "latest:"})
    expect_refused(emit("--image", image), "is not a container's image", "launch --help");
  expect_refused({"tarin"}, "unknown command `hyperion tarin`", "did you mean `hyperion train`?");
  expect_refused({"bench", "hardwre"}, "unknown command `hyperion bench hardwre`",
                 "did you mean `hyperion bench hardware`?");
  expect_refused({}, "needs a command", "one of train");
  expect_refused({"generate", "x", "--prmpt", "1"}, "unknown flag --prmpt", "did you mean --prompt?");
  expect_refused({"train"}, "RECIPE is required", "hyperion train --help");
  expect_refused({"train", "x", "--steps"}, "--steps needs a value", "hyperion train --help");
  expect_refused({"train", "x", "--run", ""}, "--run", "hyperion train --help");
  expect_refused({"bench", "hardware", "--sizes", "0"}, "--sizes: \"0\" is not a whole number from 1",
                 "bench hardware --help");
  EXPECT_FALSE(std::filesystem::exists(scratch_.runs()));
}

TEST_F(BadInput, a_machine_that_cannot_is_told_before_anything_is_made) {
  if (std::getenv("HYPERION_TEST_DEVICE") == nullptr)
    expect_refused({"train", testing::tiny_recipe(scratch_), "--device", "cuda"}, "device \"cuda\" was asked for",
                   "--device cpu", 3, {{"CUDA_VISIBLE_DEVICES", ""}});
  expect_refused(train("x") + Words{"--model.width=65536", "--model.layers=1024"}, "training needs at least 768.",
                 "smaller model.width", 3);
  expect_refused(train("x") + Words{"--train.batch=1048576", "--train.length=1048576", "--model.context=1048576"},
                 "activations", "smaller train.batch", 3);
  const Words text = {"--data.source=text"};
  expect_refused(train("x") + text, "data.path is empty", "--data.path=PATH");
  expect_refused(train("x") + text + Words{"--data.path=nope"}, "data.path = \"nope\" does not exist",
                 "a relative path starts at");
  expect_refused(train("x") + text + Words{"--data.path=/"}, "data.path = \"/\" is not a file", "name a text file");
  expect_refused(train("x") + text + Words{"--data.path=tiny.toml"}, "too few for a sequence of 24", "longer text");
  EXPECT_FALSE(std::filesystem::exists(scratch_.runs()));
}

TEST_F(BadInput, a_runs_folder_that_cannot_be_is_refused) {
  testing::write_file(scratch_.path() / "file", "mine");
  expect_refused(train("x"), "it is not a folder", "HYPERION_RUNS", 2, {{"HYPERION_RUNS", "file"}});
  expect_refused({"runs", "ls"}, "it is not a folder", "HYPERION_RUNS", 2, {{"HYPERION_RUNS", "file"}});
  expect_refused(train("x"), "cannot create folder file/below", "a file where a folder should be", 1,
                 {{"HYPERION_RUNS", "file/below"}});
  expect_refused(train("x"), "cannot create folder /proc/none", "nothing can be made there", 1,
                 {{"HYPERION_RUNS", "/proc/none"}});
  EXPECT_EQ(testing::read_file(scratch_.path() / "file"), "mine");
  for (const char* name : {"../x", ".hidden", "a/b"}) expect_refused(train(name), "cannot be a run's name", "letters");
}

TEST_F(BadInput, an_existing_run_or_recipe_is_left_as_it_is) {
  make_run();
  const auto before = testing::tree(scratch_.runs());
  expect_refused(train("good"), "exists already", "hyperion resume good");
  EXPECT_NE(run(scratch_, train("good") + Words{"--or-resume", "--dry-run"}).out.find("is there and would go on"),
            std::string::npos);
  expect_refused({"resume", "good", "--model.width=64"}, "and --model.width says 64", "another run");
  expect_refused({"resume", "good", "--seed", "5"}, "run good was begun with train.seed = 1", "another run");
  expect_refused({"resume", "good", "--optim.lrr=1"}, "unknown setting optim.lrr", "did you mean optim.lr?");
  expect_refused({"resume", "good", "--steps", "8", "--device", "cuda"}, "device \"cuda\"", "--device cpu", 3,
                 {{"CUDA_VISIBLE_DEVICES", ""}});
  const Finished complete = run(scratch_, {"resume", "good"});
  EXPECT_EQ(complete.code, 0);
  EXPECT_NE(complete.err.find("nothing to do"), std::string::npos);
  EXPECT_TRUE(testing::tree(scratch_.runs()) == before);
  ASSERT_EQ(run(scratch_, {"init", "mine"}).code, 0);
  testing::write_file(scratch_.path() / "mine" / "recipe.toml", "# mine");
  expect_refused({"init", "mine"}, "mine/recipe.toml exists already", "nothing was changed");
  EXPECT_EQ(testing::read_file(scratch_.path() / "mine" / "recipe.toml"), "# mine");
}

TEST_F(BadInput, questions_to_a_model_are_checked) {
  make_run();
  const auto before = testing::tree(scratch_.runs());
  const Words generate = {"generate", "good", "--prompt"};
  expect_refused({"eval", "god"}, "no run called \"god\"", "did you mean good?");
  expect_refused({"generate", "zzzzz", "--prompt", "1"}, "no run called \"zzzzz\"", "runs ls");
  expect_refused({"runs", "show", "goood"}, "no run called", "did you mean good?");
  expect_refused(generate + Words{""}, "the prompt is empty", "at least one character");
  expect_refused(generate + Words{std::string(48, '1')}, "the prompt has 48 tokens, and the model's context is 48",
                 "shorter");
  expect_refused(generate + Words{"1", "--stop", ""}, "--stop", "generate --help");
  expect_refused(generate + Words{"1", "--top-p", "1.5"}, "--top-p: \"1.5\" is not a number from 0 to 1",
                 "generate --help");
  expect_refused(generate + Words{"1", "--repetition-penalty", "0"}, "--repetition-penalty: \"0\" is not a number",
                 "generate --help");
  expect_refused({"generate", "good"}, "there is no prompt", "--prompts FILE");
  expect_refused({"generate", "good", "--prompts", "nowhere.txt"}, "cannot open nowhere.txt", "spelling", 1);
  expect_refused(generate + Words{"1", "--tokens", "0"}, "--tokens: \"0\" is not a whole number from 1",
                 "generate --help");
  expect_refused(generate + Words{"1", "--temperature", "-1"}, "--temperature: \"-1\" is not a number from 0 to 100",
                 "generate --help");
  expect_refused(generate + Words{"1", "--temperature", "nan"}, "--temperature: \"nan\"", "generate --help");
  expect_refused(generate + Words{"1", "--seed", "-1"}, "--seed: \"-1\" is not a whole number", "generate --help");
  expect_refused(generate + Words{"1", "--device", "gpu"}, "is not one of auto, cpu, cuda", "generate --help");
  EXPECT_TRUE(testing::tree(scratch_.runs()) == before);
}

TEST_F(BadInput, two_processes_cannot_train_one_run) {
  testing::Program first(scratch_, train("shared") + Words{"--steps", "100000"} + testing::text_data(scratch_));
  ASSERT_TRUE(first.wait_for_text("step 2/"));
  expect_refused({"resume", "shared"}, "run shared is being trained by another process", "wait for it");
  expect_refused(train("shared"), "exists already", "resume shared");
  first.signal(SIGINT);
  EXPECT_EQ(first.wait().code, 130);
}

TEST_F(BadInput, output_that_cannot_be_written_is_told_and_harms_no_file) {
  make_run();
  const auto shell = [&](const std::string& command) {
    return std::system(
        ("cd " + scratch_.path().string() + " && HYPERION_RUNS=runs " HYPERION_PROGRAM " " + command).c_str());
  };
  EXPECT_EQ(WEXITSTATUS(shell("runs ls >/dev/full 2>err")), 1);
  EXPECT_NE(testing::read_file(scratch_.path() / "err").find("could not be written: No space left"), std::string::npos);
  EXPECT_EQ(WEXITSTATUS(shell("train tiny.toml --device cpu --run closed --steps 4 >&- 2>&-")), 0);
  EXPECT_EQ(testing::read_file(scratch_.runs() / "closed" / ".lock"), "") << "what was printed landed in a file";
  EXPECT_EQ(run(scratch_, {"eval", "closed"}).code, 0);
}

}  // namespace
}  // namespace hyperion
