// A checkpoint's state that no run can have, and a damaged account of a run: told once, and passed over.
#include <gtest/gtest.h>
#include <signal.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/end_to_end/support_manifest.h"
#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Finished;
using testing::run;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

class DamagedRun : public ::testing::Test {
 protected:
  Words train(const std::string& name) {
    return Words{"train",
                 testing::tiny_recipe(scratch_),
                 "--run",
                 name,
                 "--steps",
                 "10",
                 "--model.layers=1",
                 "--checkpoint.best=false"} +
           testing::device_flags();
  }
  fs::path folder(const std::string& name) { return scratch_.runs() / name; }
  void make_whole() { ASSERT_EQ(run(scratch_, train("whole") + testing::text_data(scratch_)).code, 0); }

  Scratch scratch_;
};

TEST_F(DamagedRun, a_state_that_no_run_can_have_is_passed_over_and_told_once) {
  make_whole();
  const std::pair<const char*, std::function<void(json&)>> cases[] = {
      {"state.cursor.samples is -1", [](json& state) { state["cursor"]["samples"] = -1; }},
      {"state.cursor.samples is 9223372036854775807", [](json& state) { state["cursor"]["samples"] = INT64_MAX; }},
      {"state.updates is -5", [](json& state) { state["updates"] = -5; }},
      {"state has no cursor", [](json& state) { state = json::object(); }},
      {"state.seconds is \"long\"", [](json& state) { state["seconds"] = "long"; }},
      {"state.seed is 99", [](json& state) { state["seed"] = 99; }},
      {"state.updates is 9, and a run in fp32", [](json& state) { state["updates"] = 9; }},
      {"or has another shape", [](json& state) { state["model"]["n_positions"] = 47; }},
      {"model_type", [](json& state) { state["model"]["model_type"] = "nothing"; }},
  };
  for (const auto& [words, edit] : cases) {
    SCOPED_TRACE(words);
    fs::remove_all(folder("copy"));
    fs::copy(folder("whole"), folder("copy"), fs::copy_options::recursive);
    testing::edit_state(folder("copy") / "checkpoints/step-10", edit);
    const Finished done = run(scratch_, {"resume", "copy"});
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_EQ(count(done.err, "checkpoint of step 10 is bad, falling back to step 5"), 1) << done.err;
    EXPECT_EQ(count(done.err, words), 1) << done.err;
    EXPECT_EQ(done.err.find("json.exception"), std::string::npos) << done.err;
    EXPECT_EQ(testing::losses(folder("copy")), testing::losses(folder("whole")));
  }
}

TEST_F(DamagedRun, a_validation_stands_once_however_often_its_end_was_killed) {
  for (int round = 0; round < 2; ++round)
    EXPECT_EQ(run(scratch_, round == 0 ? train("killed") : Words{"resume", "killed"},
                  {{"HYPERION_FAULTS", "train.answer=kill"}})
                  .code,
              128 + SIGKILL);
  ASSERT_EQ(run(scratch_, {"resume", "killed"}).code, 0);
  const std::string metrics = testing::read_file(folder("killed") / "metrics.jsonl");
  EXPECT_EQ(count(metrics, "{\"step\":6,\"split\""), 1);
  EXPECT_EQ(count(metrics, "{\"step\":10,\"split\""), 1);
}

TEST_F(DamagedRun, lost_lines_of_the_metrics_are_told_and_the_run_goes_on) {
  const Words killed = train("killed") + testing::text_data(scratch_);
  run(scratch_, killed, {{"HYPERION_FAULTS", "train.step=kill@8"}});
  const fs::path metrics = folder("killed") / "metrics.jsonl";
  std::string text = testing::read_file(metrics);
  text.replace(text.find("\"loss\""), 6, "\"lnss\"");
  text.erase(text.find("{\"step\":3"), text.find("{\"step\":4") - text.find("{\"step\":3"));
  testing::write_file(metrics, text);
  const Finished done = run(scratch_, {"resume", "killed"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(count(done.err, "metrics.jsonl: left out 1 damaged line, which is no record"), 1) << done.err;
  EXPECT_EQ(count(done.err, "metrics.jsonl: 2 of the 5 steps so far have no line"), 1) << done.err;
  EXPECT_EQ(testing::losses(folder("killed")).size(), 8u);
}

TEST_F(DamagedRun, weights_that_are_not_finite_to_begin_with_are_not_blamed_on_the_learning_rate) {
  make_whole();
  ASSERT_EQ(run(scratch_, {"export", "whole", "--to", "hf"}).code, 0);
  const fs::path weights = scratch_.path() / "hf/model.safetensors";
  std::string bytes = testing::read_file(weights);
  bytes.replace(bytes.size() - 4, 4, std::string("\x00\x00\xc0\x7f", 4));  // nan
  testing::write_file(weights, bytes);
  testing::write_file(scratch_.path() / "from.toml",
                      "[train]\nsteps = 3\nbatch = 4\nlength = 16\n[model]\nfrom = \"hf\"\n[optim]\nwarmup = 0\n");
  const Finished done = run(scratch_, Words{"train", scratch_.path() / "from.toml", "--run", "n"} +
                                          testing::device_flags() + testing::text_data(scratch_));
  EXPECT_EQ(done.code, 1) << done.err;
  EXPECT_NE(testing::error_line(done).find("at step 1"), std::string::npos) << done.err;
  EXPECT_NE(testing::hint_line(done).find("in the weights of model.from = "), std::string::npos) << done.err;
  EXPECT_EQ(testing::hint_line(done).find("optim.lr"), std::string::npos) << done.err;
}

TEST_F(DamagedRun, a_batch_of_more_samples_than_there_are_is_told) {
  const Finished done = run(scratch_, Words{"train", testing::tiny_recipe(scratch_), "--steps", "4", "--model.layers=1",
                                            "--train.batch=1024", "--eval.batches=1"} +
                                          testing::device_flags() + testing::text_data(scratch_));
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.err.find("train.batch = 1,024 is more than the "), std::string::npos) << done.err;
}

}  // namespace
}  // namespace hyperion
