// Models by their names on the hub, found in Hugging Face's cache without a network.
#include <gtest/gtest.h>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

namespace fs = std::filesystem;
using testing::device_flags;
using testing::Finished;
using testing::read_file;
using testing::run;
using testing::says;
using testing::Scratch;
using testing::write_file;
using testing::operator+;
using Words = std::vector<std::string>;

const std::string kCommit(40, 'a');

class ModelNames : public ::testing::Test {
 protected:
  // A small model in the cache, as huggingface_hub leaves one.
  ModelNames() {
    const auto trained = run(
        scratch_, Words{"train", testing::tiny_recipe(scratch_), "--run", "first", "--steps", "1"} + device_flags());
    EXPECT_EQ(trained.code, 0) << trained.err;
    const auto exported = run(scratch_, {"export", "first", "--to", "exported"});
    EXPECT_EQ(exported.code, 0) << exported.err;
    fs::create_directories(snapshot_);
    fs::create_directories(repo_ / "blobs");
    fs::create_directories(repo_ / "refs");
    write_file(repo_ / "refs/main", kCommit);
    for (const char* name : {"config.json", "model.safetensors"}) {
      fs::rename(scratch_.path() / "exported" / name, repo_ / "blobs" / name);
      fs::create_symlink(fs::path("../../blobs") / name, snapshot_ / name);
    }
    environment_["HF_HOME"] = scratch_.path() / "home";
    write_file(scratch_.path() / "more.toml", R"([train]
steps = 2
batch = 4
length = 24
[data]
digits = 2
[optim]
warmup = 1
)");
  }

  Finished hyperion(const Words& words) { return run(scratch_, words, environment_); }

  Scratch scratch_;
  fs::path repo_ = scratch_.path() / "home/hub/models--tiny--model", snapshot_ = repo_ / "snapshots" / kCommit;
  std::map<std::string, std::string> environment_ = {{"HF_HUB_CACHE", ""}};
};

TEST_F(ModelNames, are_trained_from_and_the_run_keeps_the_folder) {
  const auto recipe = scratch_.path() / "more.toml";
  const auto whole = hyperion(Words{"train", recipe, "--run", "whole", "--model.from=tiny/model"} + device_flags());
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_TRUE(says(read_file(scratch_.runs() / "whole/config.resolved.toml"), "from = \"" + snapshot_.string() + "\""));
  EXPECT_TRUE(says(read_file(scratch_.runs() / "whole/report.html"), "tiny/model"));

  const Words adapted =
      Words{"train", recipe, "--run", "adapted", "--or-resume", "--model.from=tiny/model@" + kCommit, "--lora.rank=2"} +
      device_flags();
  ASSERT_EQ(hyperion(adapted).code, 0);
  const auto more = hyperion(adapted + Words{"--steps", "3"});
  EXPECT_EQ(more.code, 0) << more.err;
  const auto resumed = hyperion({"resume", "adapted", "--steps", "4", "--model.from=tiny/model"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  environment_["HF_HOME"] = "elsewhere";
  const auto eval = hyperion({"eval", "adapted"});
  EXPECT_EQ(eval.code, 0) << "a run needs no name any more: " << eval.err;
  ASSERT_EQ(hyperion({"export", "adapted", "--as-adapter", "--to", "adapter"}).code, 0);
  EXPECT_TRUE(
      says(read_file(scratch_.path() / "adapter/adapter_config.json"), "\"base_model_name_or_path\": \"tiny/model\""));
}

TEST_F(ModelNames, are_a_model_to_every_command) {
  const auto by_name = hyperion({"generate", "tiny/model", "--prompt", "1+2:", "--device", "cpu"}),
             by_path = hyperion({"generate", snapshot_, "--prompt", "1+2:", "--device", "cpu"});
  EXPECT_EQ(by_name.code, 0) << by_name.err;
  EXPECT_EQ(by_name.out, by_path.out);
  EXPECT_EQ(hyperion({"export", "tiny/model", "--to", "again"}).code, 0);
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(scratch_.path() / "again/model.safetensors")));
  const auto dry = hyperion({"train", scratch_.path() / "more.toml", "--dry-run", "--model.from=tiny/model"});
  EXPECT_EQ(dry.code, 0) << dry.err;
}

TEST_F(ModelNames, that_the_cache_has_not_or_not_whole_say_how_to_fetch_them) {
  for (const Words& words :
       {Words{"generate", "tiny/other", "--prompt", "a"}, Words{"export", "tiny/other", "--to", "x"},
        Words{"train", scratch_.path() / "more.toml", "--model.from=tiny/other"},
        Words{"data", "tokenize", "--tokenizer", "tiny/other"}}) {
    const auto done = hyperion(words);
    EXPECT_EQ(done.code, 2) << words.front();
    EXPECT_TRUE(says(done.err, "`hyperion fetch tiny/other`")) << done.err;
  }
  fs::remove(snapshot_ / "model.safetensors");
  const auto part = hyperion({"generate", "tiny/model", "--prompt", "a"});
  EXPECT_EQ(part.code, 2);
  EXPECT_TRUE(says(part.err, "model.safetensors is not in") &&
              says(part.err, "`hyperion fetch tiny/model` completes it"))
      << part.err;
}

TEST_F(ModelNames, yield_to_paths) {
  fs::create_directories(scratch_.path() / "tiny/model");
  const auto done = hyperion({"generate", "tiny/model", "--prompt", "a"});
  EXPECT_EQ(done.code, 2);
  EXPECT_TRUE(says(done.err, "tiny/model is neither a run")) << done.err;
}

}  // namespace
}  // namespace hyperion
