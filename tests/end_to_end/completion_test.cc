// Shell completion, asked as the shells ask it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

using testing::Scratch;

class Completion : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (std::system((shell() + " -c true >/dev/null 2>&1").c_str()) != 0) GTEST_SKIP() << "no " << shell() << " here";
    for (const char* folder : {"first", "second", "bench-train-20261116-181500", "launch-20261116-181500"})
      std::filesystem::create_directories(scratch_.runs() / folder);
    for (const char* run : {"first", "second"}) testing::write_file(scratch_.runs() / run / "run.json", "{}");
    testing::write_file(scratch_.path() / "recipe.toml", "");
  }
  std::string shell() const { return GetParam(); }

  // What Tab offers after these words, the last of them unfinished.
  std::string offered(const std::string& words) {
    testing::write_file(
        scratch_.path() / "ask",
        std::string(shell() == "zsh" ? "emulate sh -c 'source ./load'\n" : "source ./load\n") + "ask() {\n" +
            (shell() == "zsh" ? "emulate -L sh; setopt kshglob noshglob braceexpand\n" : "") +
            "COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _hyperion; echo \"${COMPREPLY[*]}\"\n}\n" +
            "ask " + words + " >out\n");
    const std::string program = HYPERION_PROGRAM;
    const std::string flags = shell() == "zsh" ? " -f" : " --norc";
    const int code =
        std::system(("cd " + scratch_.path().string() + " && HOME=$PWD && export HOME && " + program + " completion " +
                     shell() + " >load && HYPERION_RUNS=runs " + shell() + flags + " ./ask 2>err")
                        .c_str());
    EXPECT_EQ(code, 0) << testing::read_file(scratch_.path() / "err");
    return testing::read_file(scratch_.path() / "out");
  }

  Scratch scratch_;
};

TEST_P(Completion, offers_commands_flags_settings_runs_and_files) {
  EXPECT_EQ(offered("hyperion trai"), "train\n");
  EXPECT_EQ(offered("hyperion runs ''"), "ls show tail export rm rename\n");
  EXPECT_EQ(offered("hyperion bench hardware --si"), "--sizes\n");
  EXPECT_EQ(offered("hyperion train recipe.toml --optim.l"), "--optim.lr=\n");
  EXPECT_EQ(offered("hyperion train recipe.toml --run x --optim.w"), "--optim.warmup= --optim.weight_decay=\n");
  EXPECT_EQ(offered("hyperion resume ''"), "first second\n");
  EXPECT_EQ(offered("hyperion generate se"), "second\n");
  EXPECT_EQ(offered("hyperion completion ''"), "bash zsh\n");
  if (shell() == "bash") {
    EXPECT_EQ(offered("hyperion train rec"), "recipe.toml\n");
  }
}

TEST_P(Completion, offers_the_values_of_settings_that_have_a_list_of_them) {
  // bash cuts words at =, zsh does not.
  const auto valued = [&](const std::string& name, const std::string& begun) {
    return offered("hyperion train recipe.toml --" + name + (shell() == "bash" ? " = " + begun : "=" + begun));
  };
  const auto whole = [&](const std::string& name, const std::string& values) {
    std::istringstream words(values);
    std::string all;
    for (std::string word; words >> word;)
      all += (all.empty() ? "" : " ") + (shell() == "bash" ? "" : "--" + name + "=") + word;
    return all + "\n";
  };
  EXPECT_EQ(valued("optim.schedule", "co"), whole("optim.schedule", "constant cosine"));
  EXPECT_EQ(valued("optim.rule", ""), whole("optim.rule", "adamw sgd"));
  EXPECT_EQ(valued("memory.recompute", "f"), whole("memory.recompute", "full"));
  EXPECT_EQ(valued("train.deterministic", "t"), whole("train.deterministic", "true"));
  EXPECT_NE(valued("model.preset", "llama-t").find("llama-tiny"), std::string::npos);
  EXPECT_EQ(valued("optim.lr", "1"), "\n");
  EXPECT_EQ(offered("hyperion train recipe.toml --precision b"), "bf16\n");
  EXPECT_EQ(offered("hyperion train recipe.toml --optim.schedule lin"), "linear\n");
  EXPECT_EQ(offered("hyperion train recipe.toml --optim.schedule=li"), "--optim.schedule=linear\n");
}

TEST_P(Completion, offers_the_values_of_flags_and_the_workloads_of_benches) {
  EXPECT_EQ(offered("hyperion eval first --quantize ''"), "none nf4\n");
  EXPECT_EQ(offered("hyperion launch --show r"), "rank0\n");
  EXPECT_EQ(offered("hyperion init --template l"), "lora\n");
  EXPECT_EQ(offered("hyperion bench train tiny-g"), "tiny-gpt2\n");
}

TEST_P(Completion, goes_on_after_the_mark_of_launch_as_for_the_command_itself) {
  EXPECT_EQ(offered("hyperion launch -n 2 -- trai"), "train\n");
  EXPECT_EQ(offered("hyperion launch -n 2 -- resume se"), "second\n");
  EXPECT_EQ(offered("hyperion launch -n 2 -- train recipe.toml --optim.l"), "--optim.lr=\n");
}

TEST_P(Completion, offers_runs_and_folders_for_a_model_and_nothing_half_written) {
  EXPECT_EQ(offered("hyperion train recipe.toml --model.from=se"), "--model.from=second\n");
  if (shell() != "bash") return;
  for (const char* folder : {"llama", "llama.partial-12-1"})
    std::filesystem::create_directories(scratch_.path() / folder);
  EXPECT_EQ(offered("hyperion train recipe.toml --model.from ll"), "llama\n");
  EXPECT_EQ(offered("hyperion train recipe.toml --model.from = ll"), "llama\n");
  EXPECT_EQ(offered("hyperion data inspect ll"), "llama\n");
}

TEST_P(Completion, quotes_what_it_adds_of_names_and_keeps_what_was_typed) {
  std::filesystem::create_directories(scratch_.runs() / "third one");
  testing::write_file(scratch_.runs() / "third one/run.json", "{}");
  for (const char* file : {"my file.toml", "it's $x"}) testing::write_file(scratch_.path() / file, "");
  EXPECT_EQ(offered("hyperion resume th"), "third\\ one\n");
  EXPECT_EQ(offered("hyperion resume 'third\\ o'"), "third\\ one\n");
  EXPECT_EQ(offered("hyperion resume \"'third o\""), "third one\n") << "the shell ends the quotation";
  EXPECT_EQ(offered("hyperion train my"), "my\\ file.toml\n");
  EXPECT_EQ(offered("hyperion train it"), "it\\'s\\ \\$x\n");
  EXPECT_EQ(offered("hyperion train recipe.toml --data.path=my"), "--data.path=my\\ file.toml\n");
}

INSTANTIATE_TEST_SUITE_P(Shells, Completion, ::testing::Values("bash", "zsh"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace hyperion
