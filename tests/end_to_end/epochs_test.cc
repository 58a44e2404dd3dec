// Runs that are told how often to see their data, in place of how many steps to take.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

using nlohmann::json;
using testing::Finished;
using testing::run;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

constexpr char kEpochs[] = R"([train]
epochs = 3
batch = 4
accumulate = 2
length = 16
log_every = 1
[model]
layers = 1
heads = 2
width = 16
context = 32
[data]
digits = 2
sums = 10
[eval]
every = 0
batches = 1
[checkpoint]
every = 1
)";

class EpochRuns : public ::testing::Test {
 protected:
  EpochRuns() { testing::write_file(recipe_, kEpochs); }
  Words train(const std::string& name) const {
    return Words{"train", recipe_.string(), "--run", name} + testing::device_flags();
  }
  // What a run measured: of steps, or of epochs.
  std::vector<json> records(const std::string& name, bool epochs) const {
    std::istringstream lines(testing::read_file(scratch_.runs() / name / "metrics.jsonl"));
    std::vector<json> list;
    for (std::string line; std::getline(lines, line);) {
      json record = json::parse(line);
      record.erase("unix_s");  // when it was
      if (epochs ? record.value("split", "") == "training" : !record.contains("split")) list.push_back(record);
    }
    return list;
  }
  Scratch scratch_;
  std::filesystem::path recipe_ = scratch_.path() / "epochs.toml";
};

TEST_F(EpochRuns, the_settings_that_a_run_keeps_are_a_recipe) {
  for (const auto& flags : {Words{}, Words{"--train.batch_per_rank=4"}}) {
    const std::string name = flags.empty() ? "whole" : "each";
    const auto first = run(scratch_, train(name) + flags);
    ASSERT_EQ(first.code, 0) << first.err;
    const auto kept = scratch_.runs() / name / "config.resolved.toml";
    const auto again = run(scratch_, Words{"train", kept.string(), "--run", name + "-again"});
    ASSERT_EQ(again.code, 0) << again.err;
    EXPECT_EQ(testing::read_file(scratch_.runs() / (name + "-again") / "config.resolved.toml"),
              testing::read_file(kept));
  }
}

TEST_F(EpochRuns, end_with_a_short_batch_and_tell_of_each_epoch) {
  const Finished done = run(scratch_, train("r"));
  ASSERT_EQ(done.code, 0) << done.err;
  const std::string all = done.out + done.err;
  EXPECT_NE(all.find("10 samples an epoch; 3 epochs are 8 steps"), std::string::npos) << all;
  EXPECT_NE(all.find("epoch 3 of 3 is over: mean training loss"), std::string::npos) << all;
  const auto steps = records("r", false), epochs = records("r", true);
  ASSERT_EQ(steps.size(), 8u);
  EXPECT_EQ(steps[6]["tokens"], 4 * 16);
  EXPECT_EQ(steps[7]["tokens"], 2 * 16);
  EXPECT_EQ(steps[7]["samples"], 30);
  ASSERT_EQ(epochs.size(), 3u);
  EXPECT_EQ(epochs[0]["step"], 3);
  EXPECT_NEAR(
      epochs[0]["loss"].get<double>(),
      (4 * steps[0]["loss"].get<double>() + 4 * steps[1]["loss"].get<double>() + 2 * steps[2]["loss"].get<double>()) /
          10,
      1e-9);
}

TEST_F(EpochRuns, go_on_in_the_middle_of_an_epoch_to_the_bit) {
  ASSERT_EQ(run(scratch_, train("whole")).code, 0);
  ASSERT_NE(run(scratch_, train("cut"), {{"HYPERION_FAULTS", "train.step=kill@5"}}).code, 0);
  const Finished done = run(scratch_, {"resume", "cut"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(testing::losses(scratch_.runs() / "cut"), testing::losses(scratch_.runs() / "whole"));
  const auto whole = records("whole", true), cut = records("cut", true);
  EXPECT_EQ(whole, cut);
}

TEST_F(EpochRuns, can_be_made_longer_by_epochs_alone) {
  ASSERT_EQ(run(scratch_, train("r")).code, 0);
  const Finished steps = run(scratch_, {"resume", "r", "--steps", "20"});
  EXPECT_EQ(steps.code, 2);
  EXPECT_NE(steps.err.find("--train.epochs=N in place of --steps"), std::string::npos) << steps.err;
}

// 10 samples an epoch, of which 30 are seen after 8 steps of 4.
TEST_F(EpochRuns, go_on_with_another_batch_from_the_samples_that_were_seen) {
  for (const auto& [batch, steps] : {std::pair(2, 13), std::pair(8, 10)}) {
    const std::string name = "of-" + std::to_string(batch);
    ASSERT_EQ(run(scratch_, train(name)).code, 0);
    const Finished done = run(scratch_, {"resume", name, "--train.batch=" + std::to_string(batch), "--train.epochs=4"});
    ASSERT_EQ(done.code, 0) << done.err;
    const auto all = records(name, false);
    EXPECT_EQ(all.back()["step"], steps);
    EXPECT_EQ(all.back()["samples"], 40);
    EXPECT_EQ(records(name, true).size(), 4u);
    EXPECT_NE(run(scratch_, {"resume", name}).err.find("--train.epochs=N"), std::string::npos);
  }
}

TEST_F(EpochRuns, are_told_apart_from_validations_by_tail) {
  ASSERT_EQ(run(scratch_, train("r")).code, 0);
  const std::string lines = run(scratch_, {"runs", "tail", "r"}).out;
  EXPECT_NE(lines.find("step 8  an epoch is over: mean training loss"), std::string::npos) << lines;
}

TEST_F(EpochRuns, beside_steps_are_refused_and_the_flag_beats_the_recipe) {
  const Finished flag = run(scratch_, train("f") + Words{"--steps", "2"});
  ASSERT_EQ(flag.code, 0) << flag.err;
  EXPECT_EQ(records("f", false).back()["step"], 2);
  EXPECT_EQ(records("f", true).size(), 0u);
  const Finished each =
      run(scratch_, train("g") + Words{"--train.epochs=1", "--train.batch_per_rank=5", "--train.accumulate=1"});
  ASSERT_EQ(each.code, 0) << each.err;
  EXPECT_EQ(records("g", false).back()["step"], 2) << "10 samples, in place of the recipe's batches of 4";
  const Finished done = run(scratch_, train("r") + Words{"--train.epochs=3", "--steps", "4"});
  EXPECT_EQ(done.code, 2);
  EXPECT_NE(done.err.find("train.epochs = 3"), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("train.steps = 4"), std::string::npos) << done.err;
}

TEST_F(EpochRuns, of_two_ranks_see_the_same_samples) {
  ASSERT_EQ(run(scratch_, train("one")).code, 0);
  const Words launch{"launch", "-n", "2", "--logs", (scratch_.path() / "logs").string(), "--"};
  const Finished two = run(scratch_, launch + train("two") + Words{"--train.accumulate=1"});
  ASSERT_EQ(two.code, 0) << two.err;
  const auto a = records("one", false), b = records("two", false);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i]["sample_hash"], b[i]["sample_hash"]);
    EXPECT_NEAR(a[i]["loss"].get<double>(), b[i]["loss"].get<double>(), 1e-5 * a[i]["loss"].get<double>());
  }
  const Finished odd = run(scratch_, launch + train("odd") + Words{"--train.accumulate=1", "--data.sums=11"});
  EXPECT_EQ(odd.code, 2);
  EXPECT_NE(odd.err.find("--data.limit=10"), std::string::npos) << odd.err;
}

// The last batch has 12 of 16 samples: parts of 2 and of 1.
TEST_F(EpochRuns, have_the_same_bits_on_one_two_and_four_ranks_where_that_is_asked_for) {
  const auto layout = [&](const std::string& name, int ranks) {
    const Words launch{"launch", "-n", std::to_string(ranks), "--logs", (scratch_.path() / ("logs-" + name)).string(),
                       "--"};
    const Words flags{"--deterministic=layout",
                      "--data.sums=20",
                      "--train.batch=16",
                      "--eval.every=1",
                      "--train.accumulate=" + std::to_string(8 / ranks),
                      "--train.accuracy=true"};
    const Finished done = run(scratch_, launch + train(name) + flags);
    EXPECT_EQ(done.code, 0) << done.err;
  };
  layout("one", 1), layout("two", 2), layout("four", 4);
  const auto figures = [&](const std::string& name) {
    std::istringstream lines(testing::read_file(scratch_.runs() / name / "metrics.jsonl"));
    std::vector<std::string> list;
    for (std::string line; std::getline(lines, line);) {
      const json record = json::parse(line);
      json kept = {record["step"], record.value("split", ""), record["loss"]};
      for (const char* key : {"grad_norm", "sample_hash", "accuracy", "token_accuracy", "tokens"})
        kept.push_back(record.contains(key) ? record[key] : json());
      list.push_back(kept.dump());
    }
    return list;
  };
  EXPECT_EQ(figures("one").size(), 4u + 4u + 3u);
  EXPECT_EQ(figures("two"), figures("one"));
  EXPECT_EQ(figures("four"), figures("one"));
}

TEST_F(EpochRuns, batch_per_rank_grows_with_the_ranks) {
  const Words flags{"--train.epochs=0", "--steps", "2", "--train.batch_per_rank=2"};
  testing::write_file(recipe_, std::string(kEpochs).replace(std::string(kEpochs).find("batch = 4\n"), 10, ""));
  ASSERT_EQ(run(scratch_, train("one") + flags).code, 0);
  const Words launch{"launch", "-n", "2", "--logs", (scratch_.path() / "logs").string(), "--"};
  ASSERT_EQ(run(scratch_, launch + train("two") + flags).code, 0);
  EXPECT_EQ(records("one", false).back()["samples"], 4);
  EXPECT_EQ(records("two", false).back()["samples"], 8);
}

}  // namespace
}  // namespace hyperion
