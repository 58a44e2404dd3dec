// `bench scaling --layouts` as a user runs it, and `--from` on the runs it leaves.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::run;
using testing::says;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

const Words kScaling = {"bench", "scaling"};

TEST(ScalingLayouts, are_trained_tabulated_and_shown_again_from_their_runs) {
  Scratch scratch;
  const auto out = scratch.path() / "out";
  const std::string recipe = HYPERION_SOURCE "/recipes/experiments/gpt2-tiny-scaling.toml";
  const auto done =
      run(scratch, kScaling + Words{recipe, "--device", "cpu", "--steps", "6", "--batch", "4", "--set", "eval.every=3",
                                    "--set", "model.layers=2", "--folder", out.string(), "--layouts",
                                    "dp=2,zero=3;pp=2,zero=1;dp=2,tp=2,ep=2", "--optimize", "reference"});
  EXPECT_EQ(done.code, 1) << done.err;
  EXPECT_TRUE(says(done.out, "no figures:\ndp=2,tp=2,ep=2, reference, batch 4: ")) << done.out;
  const auto rows = nlohmann::json::parse(testing::read_file(out / "scaling.json"))["rows"];
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_TRUE(rows[2].contains("failed"));
  for (const int i : {0, 1}) {
    const auto& row = rows[i];
    ASSERT_FALSE(row.contains("failed")) << row;
    EXPECT_EQ(row["optimize"], "reference");
    EXPECT_EQ(row["batch"], 4);
    EXPECT_GT(row["accuracy"].get<double>(), 0);
    EXPECT_GT(row["state_bytes"].get<int64_t>(), 0);
  }
  EXPECT_EQ(rows[1]["layout"], "pp=2,accumulate=4");
  EXPECT_DOUBLE_EQ(rows[1]["bubble"], 0.2);
  const auto& cut = rows[0]["traffic"].at(0);
  EXPECT_EQ(cut["axis"], "dp");
  EXPECT_GT(cut["bytes_a_step"].at("all-gather").get<double>(), cut["bytes_a_step"].at("reduce-scatter").get<double>());
  EXPECT_GT(rows[1]["traffic"].at(0)["bytes_a_step"].at("send").get<double>(), 0);

  // Steps 3 to 6 count, and the validation after step 3, which gathers weights, does not.
  const auto first = out / "runs" / rows[0]["run"].get<std::string>();
  const auto ranks = nlohmann::json::parse(testing::read_file(first / "ranks.json"));
  for (const auto& rank : ranks["ranks"]) {
    EXPECT_EQ(rank["steps"], 4);
    EXPECT_EQ(rank["traffic"].at("control all_gather step")["calls"], 4);
    for (const auto& [key, moved] : rank["traffic"].items()) EXPECT_EQ(moved["calls"].get<int>() % 4, 0) << key;
  }

  const auto second = out / "runs" / rows[1]["run"].get<std::string>();
  const auto again = run(scratch, kScaling + Words{"--from", first.string(), second.string(), "--json"});
  ASSERT_EQ(again.code, 0) << again.err;
  const auto shown = nlohmann::json::parse(again.out)["rows"];
  ASSERT_EQ(shown.size(), 2U);
  EXPECT_EQ(shown[0], rows[0]);
  EXPECT_EQ(shown[1], rows[1]);
}

TEST(ScalingLayouts, beside_what_they_contradict_are_refused_before_anything_runs) {
  Scratch scratch;
  const auto refused = [&](const Words& flags) {
    const auto done = run(scratch, kScaling + flags);
    EXPECT_EQ(done.code, 2) << done.err;
    return done.err;
  };
  EXPECT_TRUE(says(refused({"--layouts", "dp=2", "--ranks", "2"}), "--layouts and --ranks are both given"));
  EXPECT_TRUE(says(refused({"--layouts", "dp=2", "--modes", "ddp"}), "--layouts and --modes are both given"));
  EXPECT_TRUE(says(refused({"--layouts", "dp=2,zero=7"}), "\"zero=7\" is no number from 0 to 3"));
  EXPECT_TRUE(says(refused({"--ranks", "2", "--optimize", "fused"}), "--optimize is for --layouts"));
  EXPECT_TRUE(says(refused({"--layouts", "dp=2", "--from", "x"}), "and --layouts is given too"));
  EXPECT_TRUE(says(refused({"--from", "nowhere"}), "nowhere"));
  EXPECT_FALSE(std::filesystem::exists(scratch.runs()));
}

}  // namespace
}  // namespace hyperion
