// Where the paths of a recipe begin: beside it, then here; those of flags and variables here.
#include <gtest/gtest.h>

#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

namespace fs = std::filesystem;
using testing::error_line;
using testing::hint_line;
using testing::run;
using testing::says;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

constexpr char kPathsRecipe[] = R"([train]
steps = 2
batch = 2
length = 16
[model]
layers = 1
heads = 2
width = 16
context = 32
[optim]
warmup = 0
[eval]
every = 0
batches = 1
[data]
source = "text"
path = "words.txt"
)";

// A folder with a recipe in the one where the user stands.
class RecipePaths : public ::testing::Test {
 protected:
  RecipePaths() {
    fs::create_directories(project_);
    write(kPathsRecipe);
  }
  void write(const std::string& text) { testing::write_file(project_ / "recipe.toml", text); }
  static void write_words(const fs::path& path, int factor = 1) {
    fs::create_directories(path.parent_path());
    std::string text;
    for (int i = 0; i < 800; ++i) text += "the " + std::to_string(i * i * factor % 977) + "th word\n";
    testing::write_file(path, text);
  }
  testing::Finished train(const std::string& name, const Words& flags = {}) {
    return run(scratch_, Words{"train", "project/recipe.toml", "--run", name} + testing::device_flags() + flags);
  }
  std::string kept(const std::string& name) {
    return testing::read_file(scratch_.runs() / name / "config.resolved.toml");
  }
  Scratch scratch_;
  fs::path project_ = scratch_.path() / "project", here_ = scratch_.path();
};

TEST_F(RecipePaths, begin_beside_the_recipe_and_then_here) {
  write_words(project_ / "words.txt"), write_words(here_ / "words.txt", 3);
  const auto beside = train("beside");
  ASSERT_EQ(beside.code, 0) << beside.err;
  EXPECT_TRUE(says(kept("beside"), (project_ / "words.txt").string())) << kept("beside");
  fs::remove(project_ / "words.txt");
  const auto found_here = train("here");
  ASSERT_EQ(found_here.code, 0) << found_here.err;
  EXPECT_TRUE(says(kept("here"), (here_ / "words.txt").string())) << kept("here");
}

TEST_F(RecipePaths, of_flags_and_variables_begin_here) {
  write_words(project_ / "words.txt"), write_words(here_ / "others.txt"), write_words(project_ / "others.txt");
  ASSERT_EQ(train("flag", {"--data.path=others.txt"}).code, 0);
  EXPECT_TRUE(says(kept("flag"), (here_ / "others.txt").string())) << kept("flag");
  fs::remove(here_ / "others.txt");
  EXPECT_EQ(train("missing", {"--data.path=others.txt"}).code, 2);
}

TEST_F(RecipePaths, that_are_nowhere_name_both_places) {
  const auto failed = train("missing");
  EXPECT_EQ(failed.code, 2);
  for (const fs::path& folder : {fs::path("project"), here_})
    EXPECT_TRUE(says(error_line(failed), (folder / "words.txt").string())) << failed.err;
  EXPECT_TRUE(says(hint_line(failed), "beside")) << failed.err;
  EXPECT_FALSE(fs::exists(scratch_.runs() / "missing"));
}

TEST_F(RecipePaths, of_models_too_and_a_model_of_the_hub_says_how_to_fetch_it) {
  write_words(project_ / "words.txt");
  ASSERT_EQ(train("base").code, 0);
  ASSERT_EQ(run(scratch_, {"export", "base", "--to", (project_ / "models/small").string()}).code, 0);
  const std::string text = kPathsRecipe;
  const std::string plain = text.substr(0, text.find("layers")) + text.substr(text.find("[optim]"));
  const auto from = [&](const std::string& name) {
    std::string recipe = plain;
    write(recipe.insert(recipe.find("[model]\n") + 8, "from = \"" + name + "\"\n"));
  };
  from("models/small");
  const auto trained = train("tuned");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(says(kept("tuned"), (project_ / "models/small").string())) << kept("tuned");
  from("base");
  EXPECT_EQ(train("of_run").code, 0);
  from("base@last");
  EXPECT_EQ(train("of_its_last").code, 0);
  from("./models/other");
  const auto missing = train("missing");
  EXPECT_TRUE(says(error_line(missing), "project/models/other")) << missing.err;
  EXPECT_TRUE(says(error_line(missing), (here_ / "./models/other").string())) << missing.err;
  from("someone/other");
  const auto of_hub = train("of_hub");
  EXPECT_TRUE(says(hint_line(of_hub), "hyperion fetch someone/other")) << of_hub.err;
}

TEST_F(RecipePaths, a_dry_run_shows_what_was_chosen_and_where) {
  write_words(project_ / "words.txt");
  const auto dry = train("dry", {"--dry-run", "--train.batch=4"});
  ASSERT_EQ(dry.code, 0) << dry.err;
  EXPECT_TRUE(says(dry.out, "data.path = [\"project/words.txt\"]")) << dry.out;
  EXPECT_TRUE(says(dry.out, "# project/recipe.toml:")) << dry.out;
  EXPECT_TRUE(says(dry.out, "train.batch = 4")) << dry.out;
  EXPECT_FALSE(says(dry.out, "optim.beta1")) << dry.out;
  EXPECT_TRUE(says(train("dry", {"--dry-run", "--data.path=nowhere"}).out, "nowhere is not there")) << dry.out;
}

TEST_F(RecipePaths, a_dry_run_tells_of_data_that_cannot_be_read) {
  write_words(project_ / "words.txt");
  EXPECT_FALSE(says(train("dry", {"--dry-run"}).out, "\ndata   "));
  fs::create_directories(here_ / "empty");
  fs::create_directories(here_ / "damaged");
  testing::write_file(here_ / "damaged/set.json", "");
  for (const Words& data : {Words{"prepared", "nowhere"}, Words{"prepared", "empty"}, Words{"prepared", "damaged"},
                            Words{"text", "empty"}}) {
    const auto dry = train("dry", {"--dry-run", "--data.source=" + data[0], "--data.path=" + data[1]});
    EXPECT_EQ(dry.code, 0) << dry.err;
    const size_t line = dry.out.find("\ndata        ");
    EXPECT_TRUE(line != std::string::npos && says(dry.out.substr(line), data[1])) << data[0] << dry.out;
    EXPECT_TRUE(says(dry.out, "nothing was written")) << dry.out;
  }
}

TEST_F(RecipePaths, a_dry_run_refuses_a_model_that_cannot_take_the_data_as_the_run_does) {
  write_words(project_ / "words.txt");
  const auto run = train("small", {"--model.vocabulary=1"}),
             dry = train("small", {"--model.vocabulary=1", "--dry-run"});
  EXPECT_EQ(run.code, 2);
  EXPECT_EQ(dry.code, 2) << dry.out;
  EXPECT_EQ(error_line(dry), error_line(run));
}

TEST_F(RecipePaths, a_name_too_long_for_a_folder_is_refused_by_a_dry_run_too) {
  write_words(project_ / "words.txt");
  for (const Words& more : {Words{}, Words{"--dry-run"}, Words{"--or-resume"}}) {
    const auto refused = train(std::string(256, 'n'), more);
    EXPECT_EQ(refused.code, 2) << refused.err;
    EXPECT_TRUE(says(error_line(refused), "a run's name of 256 bytes is too long")) << refused.err;
    EXPECT_TRUE(says(hint_line(refused), "at most 255 bytes")) << refused.err;
  }
}

TEST_F(RecipePaths, of_prepared_files_are_found_beside_it_and_the_set_is_made_here) {
  for (const char* name : {"a.txt", "b.txt"}) write_words(project_ / "texts" / name);
  write("[prepare]\nfiles = [\"texts/*.txt\"]\noutput = \"set\"\ntokenizer = \"bytes\"\nvalidation = 0.5\n");
  const auto made = run(scratch_, {"data", "prepare", "project/recipe.toml"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_TRUE(fs::exists(here_ / "set"));
  EXPECT_FALSE(fs::exists(project_ / "set"));
  write("[prepare]\nfiles = [\"text/*.txt\"]\noutput = \"set\"\n");
  const auto failed = run(scratch_, {"data", "prepare", "project/recipe.toml"});
  EXPECT_EQ(failed.code, 2);
  EXPECT_TRUE(says(error_line(failed), "project/text/*.txt")) << failed.err;
}

}  // namespace
}  // namespace hyperion
