// How much of what it is trained on a model predicts rightly: of images always, of tokens where asked for.
#include <gtest/gtest.h>

#include <cmath>
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

class TrainingAccuracy : public ::testing::Test {
 protected:
  Words train(const std::string& recipe, const std::string& name) {
    testing::write_file(scratch_.path() / "r.toml", recipe + "[eval]\nevery = 0\nbatches = 1\n");
    return Words{"train", (scratch_.path() / "r.toml").string(), "--run", name} + testing::device_flags();
  }
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
};

constexpr char kText[] =
    "[train]\nepochs = 3\nbatch = 4\naccumulate = 2\nlength = 16\nlog_every = 1\n[model]\nlayers = 1\nheads = 2\n"
    "width = 16\ncontext = 16\n[optim]\nlr = 0.02\nwarmup = 0\n[data]\nsource = \"text\"\nvalidation = 0.1\n";

TEST_F(TrainingAccuracy, of_tokens_is_counted_where_asked_for_and_changes_nothing) {
  testing::write_file(scratch_.path() / "text", std::string(2000, 'a'));
  const Words data{"--data.path=" + (scratch_.path() / "text").string()};
  const Finished done = run(scratch_, train(kText, "counted") + data + Words{"--train.accuracy=true"});
  ASSERT_EQ(done.code, 0) << done.err;
  ASSERT_EQ(run(scratch_, train(kText, "plain") + data).code, 0);
  EXPECT_EQ(testing::losses(scratch_.runs() / "counted"), testing::losses(scratch_.runs() / "plain"));
  EXPECT_TRUE(records("plain", false).back()["accuracy"].is_null());
  const auto steps = records("counted", false), epochs = records("counted", true);
  EXPECT_EQ(steps.back()["accuracy"], 1.0) << "there is one token";
  ASSERT_EQ(epochs.size(), 3u);
  EXPECT_EQ(epochs[2]["token_accuracy"], 1.0);
  EXPECT_TRUE(says(done.out + done.err, "acc 100.0%"));
  EXPECT_TRUE(says(testing::read_file(scratch_.runs() / "counted/report.html"), "Accuracy"));
  EXPECT_TRUE(says(done.out + done.err, "accuracy 100.0%")) << done.err;
}

TEST_F(TrainingAccuracy, of_tokens_is_the_same_on_two_ranks) {
  testing::write_file(scratch_.path() / "text", [] {
    std::string text;
    while (text.size() < 2000) text += "one two three ";
    return text;
  }());
  const Words flags{"--data.path=" + (scratch_.path() / "text").string(), "--train.accuracy=true", "--data.limit=40",
                    "--deterministic=layout"};
  ASSERT_EQ(run(scratch_, train(kText, "one") + flags).code, 0);
  const Words launch{"launch", "-n", "2", "--logs", (scratch_.path() / "logs").string(), "--"};
  const Finished two = run(scratch_, launch + train(kText, "two") + flags + Words{"--train.accumulate=1"});
  ASSERT_EQ(two.code, 0) << two.err;
  const auto a = records("one", false), b = records("two", false);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i]["accuracy"], b[i]["accuracy"]);
  EXPECT_EQ(records("one", true), records("two", true));
}

TEST_F(TrainingAccuracy, of_images_is_always_there) {
  const std::string shapes =
      "[train]\nepochs = 2\nbatch = 8\n[data]\nsource = \"shapes\"\nimages = 16\n[model]\npreset = \"vit-tiny\"\n"
      "layers = 1\nwidth = 32\ninner = 64\nheads = 2\n[optim]\nwarmup = 0\n";
  const Finished done = run(scratch_, train(shapes, "shapes"));
  ASSERT_EQ(done.code, 0) << done.err;
  for (const auto& step : records("shapes", false)) {
    const double right = 8 * step["accuracy"].get<double>();
    EXPECT_EQ(right, std::round(right));
  }
  ASSERT_EQ(records("shapes", true).size(), 2u);
  EXPECT_TRUE(records("shapes", true)[0]["top_1"].is_number());
}

TEST_F(TrainingAccuracy, of_tokens_is_refused_in_recorded_steps) {
  const Finished done = run(
      scratch_, train(kText, "r") + Words{"--data.path=/dev/null", "--train.accuracy=true", "--train.optimize=graph"});
  EXPECT_EQ(done.code, 2);
  EXPECT_TRUE(says(done.err, "train.accuracy")) << done.err;
}

}  // namespace
}  // namespace hyperion
