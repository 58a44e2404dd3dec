// A recipe made of DeepSpeed's JSON.
#include <gtest/gtest.h>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::run;
using testing::says;
using testing::Scratch;

class FromDeepSpeed : public ::testing::Test {
 protected:
  testing::Finished init(const std::string& json, const std::vector<std::string>& more = {}) {
    testing::write_file(scratch_.path() / "ds.json", json);
    using testing::operator+;
    return run(scratch_,
               std::vector<std::string>{"init", "--from-deepspeed", "ds.json", "-o", "mine/recipe.toml"} + more);
  }
  Scratch scratch_;
};

TEST_F(FromDeepSpeed, the_recipe_says_where_each_value_came_from_and_trains) {
  const auto done = init(R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 2,
    "zero_optimization": {"stage": 3, "overlap_comm": true, "zero_quantized_weights": true},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 2, "warmup_num_steps": 1}}})");
  ASSERT_EQ(done.code, 0) << done.err;
  const auto text = testing::read_file(scratch_.path() / "mine/recipe.toml");
  EXPECT_TRUE(says(text, "For 2 processes: hyperion launch -n 2 -- train mine/recipe.toml")) << text;
  EXPECT_TRUE(says(text, "# train_batch_size")) << text;
  EXPECT_TRUE(says(text, "zero_optimization.overlap_comm: ")) << text;
  EXPECT_TRUE(says(text, "optimizer.params.betas: DeepSpeed's default")) << text;
  const auto trained = run(scratch_, {"launch", "-n", "2", "--", "train", "mine/recipe.toml", "--run", "mine",
                                      "--device", "cpu", "--model.layers=1", "--train.length=32", "--eval.batches=1"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(testing::losses(scratch_.runs() / "mine").size(), 2u);
}

TEST_F(FromDeepSpeed, what_is_refused_leaves_nothing_behind) {
  const auto wrong =
      init(R"({"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}},
                              "train_batchsize": 8})");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_TRUE(says(wrong.err, "zero_optimization.offload_param: weights in host memory")) << wrong.err;
  EXPECT_TRUE(says(wrong.err, "train_batchsize: did you mean train_batch_size?")) << wrong.err;
  EXPECT_EQ(init("[]").code, 2);
  EXPECT_EQ(init("{").code, 1);
  const auto batch = init(R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 4,
                              "gradient_accumulation_steps": 1})",
                          {"--ranks", "4"});
  EXPECT_TRUE(says(batch.err, "x 4 processes")) << batch.err;
  const auto range = init(R"({"train_batch_size": 8, "gradient_clipping": -1})");
  EXPECT_EQ(range.code, 2);
  EXPECT_TRUE(says(range.err, "optim.clip = -1 is out of range, gradient_clipping")) << range.err;
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "mine"));
  ASSERT_EQ(init(R"({"train_batch_size": 8})").code, 0);
  EXPECT_TRUE(says(init(R"({"train_batch_size": 8})").err, "mine/recipe.toml exists already"));
}

TEST_F(FromDeepSpeed, a_file_of_any_name_gives_a_recipe_that_can_be_read) {
  for (const std::string name : {"größe.json", "a\nb.json", "\xff.json", "\"q\".json"}) {
    testing::write_file(scratch_.path() / name, R"({"train_micro_batch_size_per_gpu": 2})");
    ASSERT_EQ(run(scratch_, {"init", "--from-deepspeed", name, "-o", "named.toml"}).code, 0) << name;
    const auto shown = run(scratch_, {"config", "show", "named.toml"});
    EXPECT_EQ(shown.code, 0) << name << shown.err;
    std::filesystem::remove(scratch_.path() / "named.toml");
  }
}

}  // namespace
}  // namespace hyperion
