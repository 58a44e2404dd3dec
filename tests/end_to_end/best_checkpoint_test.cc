// The checkpoint of the lowest validation loss: kept, named, remembered; and runs that end when it falls no further.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

using nlohmann::json;
using testing::Finished;
using testing::run;
using testing::says;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

// What it validates on is unlike what it learns: its validation loss only rises, and the first one is the best.
class BestCheckpoint : public ::testing::Test {
 protected:
  BestCheckpoint() {
    std::string text;
    while (text.size() < 4000) text += "abcd";
    testing::write_file(scratch_.path() / "text", text + std::string(1000, 'z'));
    testing::write_file(recipe_, testing::kTextRecipe);
  }
  Words train(const std::string& name) const {
    return Words{"train", recipe_.string(), "--run", name, "--data.path=" + (scratch_.path() / "text").string()} +
           testing::device_flags();
  }
  bool has(const std::string& name, int64_t step) const {
    return std::filesystem::exists(scratch_.runs() / name / "checkpoints" / ("step-" + std::to_string(step)));
  }
  std::vector<json> validations(const std::string& name) const {
    std::istringstream lines(testing::read_file(scratch_.runs() / name / "metrics.jsonl"));
    std::vector<json> list;
    for (std::string line; std::getline(lines, line);)
      if (json record = json::parse(line); record.value("split", "") == "validation") {
        record.erase("unix_s");  // when it was
        list.push_back(record);
      }
    return list;
  }
  json record(const std::string& name) const {
    return json::parse(testing::read_file(scratch_.runs() / name / "run.json"));
  }
  Scratch scratch_;
  std::filesystem::path recipe_ = scratch_.path() / "rising.toml";
};

TEST_F(BestCheckpoint, is_kept_beside_the_newest_and_opened_by_name) {
  const Finished done = run(scratch_, train("r"));
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(says(done.out + done.err, "of step 2: r@best")) << done.err;
  EXPECT_TRUE(has("r", 2) && has("r", 12));
  EXPECT_FALSE(has("r", 5) || has("r", 10));
  EXPECT_EQ(record("r")["best_step"], 2);
  const Finished best = run(scratch_, {"eval", "r@best", "--json"}), last = run(scratch_, {"eval", "r", "--json"});
  ASSERT_EQ(best.code, 0) << best.err;
  EXPECT_EQ(json::parse(best.out)["step"], 2);
  EXPECT_EQ(json::parse(last.out)["step"], 12);
  EXPECT_NEAR(json::parse(best.out)["loss"], record("r")["best_validation_loss"].get<double>(), 1e-6);
  EXPECT_EQ(validations("r").back()["best_step"], 2);
  EXPECT_TRUE(says(run(scratch_, {"runs", "show", "r"}).out, "step 2, validation loss"));
  EXPECT_TRUE(says(testing::read_file(scratch_.runs() / "r/report.html"), "<td>best</td>"));
  for (const Words& words : {Words{"export", "r@best", "--to", (scratch_.path() / "out").string()},
                             Words{"generate", "r@2", "--prompt", "ab", "--tokens", "2"}, Words{"eval", "r@last"}}) {
    const Finished opened = run(scratch_, words);
    EXPECT_EQ(opened.code, 0) << words[0] << opened.err;
  }
  const Finished other = run(scratch_, {"eval", "r@7"});
  EXPECT_EQ(other.code, 2);
  EXPECT_TRUE(says(other.err, "there are r@12, r@2")) << other.err;
}

TEST_F(BestCheckpoint, may_be_started_from_and_keeps_its_step) {
  ASSERT_EQ(run(scratch_, train("r")).code, 0);
  const std::string recipe = testing::kTextRecipe;
  const size_t model = recipe.find("[model]"), data = recipe.find("[data]");
  testing::write_file(recipe_, recipe.substr(0, model) + "[model]\nfrom = \"r@best\"\n" + recipe.substr(data));
  const Finished done = run(scratch_, train("next") + Words{"--steps", "2"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(says(testing::read_file(scratch_.runs() / "next/config.resolved.toml"), "r/checkpoints/step-2\""));
}

TEST_F(BestCheckpoint, is_remembered_over_a_kill_to_the_bit) {
  ASSERT_EQ(run(scratch_, train("whole")).code, 0);
  ASSERT_NE(run(scratch_, train("cut"), {{"HYPERION_FAULTS", "train.step=kill@8"}}).code, 0);
  const Finished done = run(scratch_, {"resume", "cut"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(has("cut", 2) && !has("cut", 5));
  EXPECT_EQ(validations("cut"), validations("whole"));
  EXPECT_EQ(record("cut")["best_step"], 2);
}

TEST_F(BestCheckpoint, early_stop_comes_at_the_same_step_where_a_validation_was_cut_short) {
  const Words flags{"--train.patience=2"};
  ASSERT_EQ(run(scratch_, train("whole") + flags).code, 0);
  for (const char* nth : {"1", "2", "3"}) {
    const std::string name = std::string("cut-") + nth;
    ASSERT_EQ(
        run(scratch_, train(name) + flags, {{"HYPERION_FAULTS", std::string("train.evaluate=interrupt@") + nth}}).code,
        130);
    const Finished done = run(scratch_, {"resume", name});
    ASSERT_EQ(done.code, 0) << done.err;
    EXPECT_EQ(validations(name), validations("whole")) << nth;
    EXPECT_EQ(json::parse(run(scratch_, {"eval", name + "@best", "--json"}).out)["step"], 2) << nth;
  }
}

TEST_F(BestCheckpoint, that_is_the_last_is_known_after_the_last_validation) {
  testing::write_file(scratch_.path() / "text", std::string(5000, 'a'));
  ASSERT_EQ(run(scratch_, train("r")).code, 0);
  EXPECT_EQ(record("r")["best_step"], 12);
  EXPECT_EQ(json::parse(run(scratch_, {"eval", "r@best", "--json"}).out)["step"], 12);
}

TEST_F(BestCheckpoint, is_the_same_on_two_ranks_that_share_the_state) {
  const Words launch{"launch", "-n", "2", "--logs", (scratch_.path() / "logs").string(), "--"};
  const Finished done = run(scratch_, launch + train("two") + Words{"--parallel.zero=2", "--train.patience=2"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(record("two")["step"], 6);
  const Finished best = run(scratch_, {"eval", "two@best", "--json"});
  ASSERT_EQ(best.code, 0) << best.err;
  EXPECT_NEAR(json::parse(best.out)["loss"], record("two")["best_validation_loss"].get<double>(), 1e-6);
}

TEST_F(BestCheckpoint, is_not_written_where_it_is_not_wanted) {
  ASSERT_EQ(run(scratch_, train("off") + Words{"--checkpoint.best=false"}).code, 0);
  ASSERT_EQ(run(scratch_, train("end") + Words{"--checkpoint.every=0"}).code, 0);
  for (const char* name : {"off", "end"}) {
    EXPECT_FALSE(has(name, 2)) << name;
    const Finished best = run(scratch_, {"eval", std::string(name) + "@best"});
    EXPECT_EQ(best.code, 2);
    EXPECT_TRUE(says(best.err, "checkpoint.best")) << best.err;
  }
}

TEST_F(BestCheckpoint, early_stop_ends_the_run_as_complete_and_says_why) {
  const Finished done = run(scratch_, train("r") + Words{"--train.patience=2"});
  ASSERT_EQ(done.code, 0) << done.err;
  const std::string why = "2 validations in a row were not below";
  EXPECT_TRUE(says(done.err + done.out, "ends early, after step 6 of 12: " + why)) << done.err;
  EXPECT_EQ(record("r")["status"], "complete");
  EXPECT_EQ(record("r")["step"], 6);
  EXPECT_TRUE(has("r", 2) && has("r", 6));
  const auto all = validations("r");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(all[1]["early_stop"].is_null());
  EXPECT_TRUE(says(all[2]["early_stop"].get<std::string>(), why));
  EXPECT_TRUE(says(run(scratch_, {"runs", "show", "r"}).out, "complete: " + why));
  EXPECT_TRUE(
      says(testing::read_file(scratch_.runs() / "r/report.html"), "It ended early, after step 6 of 12: " + why));
}

TEST_F(BestCheckpoint, early_stop_is_gone_on_from_only_when_asked) {
  ASSERT_EQ(run(scratch_, train("r") + Words{"--train.patience=2"}).code, 0);
  const Finished again = run(scratch_, {"resume", "r"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(says(again.err, "run r ended early, after step 6 of 12")) << again.out << again.err;
  EXPECT_TRUE(says(again.err, "--train.patience=N above 2")) << again.err;
  ASSERT_EQ(run(scratch_, {"resume", "r", "--train.patience=3"}).code, 0);
  EXPECT_EQ(record("r")["step"], 8);
  ASSERT_EQ(run(scratch_, {"resume", "r", "--steps", "20"}).code, 0);
  EXPECT_EQ(record("r")["step"], 14) << "more steps give it its whole patience again";
  ASSERT_EQ(run(scratch_, {"resume", "r", "--train.patience=0"}).code, 0);
  EXPECT_EQ(record("r")["step"], 20);
  EXPECT_EQ(record("r")["ended"], "");
  EXPECT_EQ(record("r")["best_step"], 2);
}

TEST_F(BestCheckpoint, early_stop_needs_validations) {
  const Finished done = run(scratch_, train("r") + Words{"--train.patience=2", "--eval.every=0"});
  EXPECT_EQ(done.code, 2);
  EXPECT_TRUE(says(done.err, "eval.every")) << done.err;
}

}  // namespace
}  // namespace hyperion
