// The recipes that `hyperion init` writes.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::run;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

// As offered by completion of --help: "pretrain: ...; sft: ...".
const Words kTemplates = {"pretrain", "sft", "lora", "images"};

class Init : public ::testing::Test {
 protected:
  void write(const std::string& name) {
    const auto done = run(scratch_, {"init", name, "--template", name});
    ASSERT_EQ(done.code, 0) << done.err;
    EXPECT_NE(done.out.find("hyperion data prepare " + name + "/recipe.toml"), std::string::npos) << done.out;
  }
  Scratch scratch_;
};

TEST_F(Init, an_empty_name_is_no_folder) {
  const auto done = run(scratch_, {"init", ""});
  EXPECT_EQ(done.code, 2) << done.out;
  EXPECT_NE(done.err.find("FOLDER is empty"), std::string::npos) << done.err;
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "recipe.toml"));
}

TEST_F(Init, every_template_is_a_recipe_that_can_be_tried) {
  const Words tiny = {"--model.layers=1", "--model.heads=2", "--model.width=32", "--model.context=512"};
  const Words train = {"train", testing::tiny_recipe(scratch_), "--device", "cpu", "--run", "base", "--steps", "1"};
  ASSERT_EQ(run(scratch_, train + tiny).code, 0);
  ASSERT_EQ(run(scratch_, {"export", "base", "--to", "base-model"}).code, 0);
  for (const auto& name : kTemplates) {
    write(name);
    const auto tried = run(scratch_, {"train", name + "/recipe.toml", "--dry-run"});
    EXPECT_EQ(tried.code, 0) << name << tried.err;
    EXPECT_NE(tried.out.find("nothing was written"), std::string::npos) << tried.out;
    EXPECT_NE(run(scratch_, {"init", "--help"}).out.find(name + ":"), std::string::npos);
  }
  const auto wrong = run(scratch_, {"init", "x", "--template", "lra"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("did you mean lora?"), std::string::npos) << wrong.err;
}

TEST_F(Init, the_template_for_texts_prepares_and_trains_as_it_says) {
  write("pretrain");
  std::string words;
  for (int i = 0; i < 2000; ++i) words += "the river " + std::to_string(i * i % 89) + (i % 7 == 0 ? ".\n" : " and ");
  std::filesystem::create_directories(scratch_.path() / "texts");
  for (const char* file : {"one.txt", "two.txt"}) testing::write_file(scratch_.path() / "texts" / file, words);
  const auto prepared = run(scratch_, {"data", "prepare", "pretrain/recipe.toml", "--prepare.validation=0.5"});
  ASSERT_EQ(prepared.code, 0) << prepared.err;
  const Words small = {"--model.layers=1", "--train.batch=2", "--steps", "1", "--device", "cpu", "--eval.batches=1"};
  const auto trained = run(scratch_, Words{"train", "pretrain/recipe.toml", "--run", "mine"} + small);
  EXPECT_EQ(trained.code, 0) << trained.err;
}

TEST_F(Init, a_warm_up_that_few_steps_shorten_is_told_though_it_was_the_default) {
  testing::write_file(scratch_.path() / "bare.toml", "[model]\nlayers = 1\nwidth = 32\nheads = 2\n");
  const auto done =
      run(scratch_, {"train", "bare.toml", "--steps", "2", "--device", "cpu", "--run", "x", "--train.batch=2"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.err.find("optim.warmup = 0 (default, shortened from 20: train.steps = 2)"), std::string::npos)
      << done.err;
}

}  // namespace
}  // namespace hyperion
