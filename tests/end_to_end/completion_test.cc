// Shell completion, asked as the shells ask it.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

using testing::Scratch;

class Completion : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (std::system((shell() + " -c true >/dev/null 2>&1").c_str()) != 0) GTEST_SKIP() << "no " << shell() << " here";
    for (const char* run : {"first", "second"}) std::filesystem::create_directories(scratch_.runs() / run);
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
  EXPECT_EQ(offered("hyperion tr"), "train\n");
  EXPECT_EQ(offered("hyperion runs ''"), "ls show tail rm rename\n");
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

INSTANTIATE_TEST_SUITE_P(Shells, Completion, ::testing::Values("bash", "zsh"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace hyperion
