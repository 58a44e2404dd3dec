// `hyperion plan show`: what a layout would do, without running it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using nlohmann::json;
using testing::run;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

const Words kShow = {"plan", "show", "--model.preset=llama-tiny", "--train.batch=16", "--train.accumulate=4"};

TEST(PlanShow, shows_memory_traffic_order_and_that_it_was_checked) {
  Scratch scratch;
  const auto done = run(scratch, kShow + Words{"--parallel", "pp=2,tp=2,dp=2", "--zero", "1", "--svg", "plan.svg"});
  ASSERT_EQ(done.code, 0) << done.err;
  for (const char* part : {"pp=2,dp=2,tp=2 (8 processes), zero 1, 1f1b: 4 micro-batches of 2 x", "sent by rank 0",
                           "reduce-scatter", "rank 4    .0aa1bb", "bubble", "nobody waits for ever"})
    EXPECT_NE(done.out.find(part), std::string::npos) << part << done.out;
  EXPECT_NE(testing::read_file(scratch.path() / "plan.svg").find("backward of micro-batch 3, stage 1"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "runs"));
}

TEST(PlanShow, lists_what_a_rank_does_as_text_and_as_json) {
  Scratch scratch;
  const Words layout = {"--parallel", "pp=2", "--schedule", "interleaved", "--chunks", "2", "--rank", "1"};
  const auto text = run(scratch, kShow + layout);
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.out.find("     0  receive hidden states 4x"), 0u) << text.out;
  const auto done = run(scratch, kShow + layout + Words{"--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  const auto plan = json::parse(done.out);
  ASSERT_EQ(plan["ranks"].size(), 1u);
  const auto& list = plan["ranks"][0]["instructions"];
  EXPECT_EQ(static_cast<size_t>(std::count(text.out.begin(), text.out.end(), '\n')), list.size());
  EXPECT_EQ(plan["stages"], (json{0, 1, 2, 3, 4}));
  int forwards = 0;
  for (const auto& instruction : list) forwards += instruction["does"] == "forward" ? 1 : 0;
  EXPECT_EQ(forwards, 8);  // four micro-batches through two stages
}

TEST(PlanShow, sends_an_images_patches_from_stage_to_stage) {
  Scratch scratch;
  const auto done =
      run(scratch, {"plan", "show", "--model.preset=vit-b16", "--train.batch=4", "--parallel", "pp=2", "--rank", "1"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out.find("     0  receive hidden states 4x197x768"), 0u) << done.out.substr(0, 200);
}

TEST(PlanShow, takes_a_recipe_with_an_adapter) {
  Scratch scratch;
  const auto done = run(scratch, kShow + Words{"--parallel", "dp=2,tp=2", "--lora.rank=4", "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  const auto rank = json::parse(done.out)["ranks"][3];
  EXPECT_LT(rank["trained"].get<int64_t>(), rank["parameters"].get<int64_t>() / 4);
  EXPECT_GT(rank["trained"].get<int64_t>(), 0);
}

TEST(PlanShow, plans_for_a_number_of_ranks_what_auto_makes_of_it) {
  Scratch scratch;
  const auto layout = [&](const Words& words, const char* preset = "llama-tiny") {
    const auto show = Words{"plan", "show", "--train.batch=16", "--train.accumulate=4", "--json"};
    const auto done = run(scratch, show + Words{std::string("--model.preset=") + preset} + words);
    return done.code == 0 ? json::parse(done.out)["layout"].get<std::string>() : done.err;
  };
  EXPECT_EQ(layout({"--parallel", "auto", "--ranks", "2"}), "pp=2");
  EXPECT_EQ(layout({"--parallel", "auto", "--ranks", "8"}), "pp=2,dp=2,tp=2");
  EXPECT_EQ(layout({"--parallel", "auto", "--ranks", "16"}), "pp=2,dp=4,tp=2");
  EXPECT_EQ(layout({"--parallel", "auto", "--ranks", "8"}, "mixtral-tiny"), "pp=2,dp=2,tp=2,ep=2");
  EXPECT_EQ(layout({"--parallel", "auto", "--ranks", "4"}, "resnet18-cifar"), "dp=4");
  EXPECT_EQ(layout({"--ranks", "4"}), "dp=4");
  EXPECT_NE(layout({"--parallel", "auto"}).find("--ranks 8"), std::string::npos);
  EXPECT_NE(layout({"--parallel", "tp=2", "--ranks", "4"}).find("needs 2 processes"), std::string::npos);
}

TEST(PlanShow, refuses_what_cannot_be_and_says_what_can) {
  Scratch scratch;
  const auto refused = [&](const Words& words) {
    const auto done = run(scratch, kShow + words);
    EXPECT_EQ(done.code, 2) << done.out;
    return done.err;
  };
  const auto says = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  says(refused({"--parallel", "tp=3"}), "sizes of tp that do: 1, 2");
  says(refused({"--parallel", "pp=8"}), "use at most 4 stages");
  says(refused({"--parallel", "pp=3", "--schedule", "interleaved"}), "take 3 or 6 (train.accumulate, --micro-batches)");
  says(refused({"--parallel", "pp=2", "--chunks", "2"}), "take the schedule interleaved");
  says(refused({"--parallel", "pp=2", "--schedule", "interleaved", "--chunks", "1"}), "use --chunks 2 or more");
  says(refused({"--parallel", "pp=2", "--schedule", "zbv", "--chunks", "3"}), "leave parallel.chunks out");
  says(refused({"--parallel", "pp=4", "--schedule", "dualpipev"}),
       "take 8 or more (train.accumulate, --micro-batches), or the schedule zbv");
  says(refused({"--parallel", "pp=2,dp=2", "--schedule", "zb-h1", "--zero", "2"}), "use zero 1, or the schedule 1f1b");
  says(refused({"--lora.rank=4", "--model.quantize=nf4"}), "no weights in 4 bits yet");
  says(refused({"--parallel", "dp=2", "--zero", "3", "--zeropp", "weights"}), "no ZeRO++ yet");
  says(refused({"--memory-budget", "x"}), "no amount of memory");
  const auto large = run(scratch, {"plan", "show", "--parallel", "dp=1000000", "--train.batch=1000000"});
  EXPECT_EQ(large.code, 2) << large.out;
  says(large.err, "a smaller dp");
  says(refused({"--parallel", "pp=2", "--schedule", "zigzag"}), "is not one of gpipe, 1f1b, interleaved");
  says(refused({"--parallel", "dp=3"}), "use a train.batch that 12 divides");
  says(refused({"--parallel", "pp=2", "--rank", "2"}), "ranks count from 0 to 1");
  says(refused({"--parallel", "pp=2", "--svg", "plan.png"}), ".svg");
  const auto resnet = run(scratch, {"plan", "show", "--model.preset=resnet18-cifar", "--parallel", "tp=2"});
  EXPECT_EQ(resnet.code, 2) << resnet.out;
  says(resnet.err, "data parallel only");
}

TEST(PlanShow, draws_gradients_of_weights_where_they_are_made) {
  Scratch scratch;
  const auto done = run(scratch, kShow + Words{"--parallel", "pp=2", "--schedule", "zb-h1", "--svg", "plan.svg"});
  ASSERT_EQ(done.code, 0) << done.err;
  for (const char* part : {"zb-h1: 4 micro-batches", "A, B, ...: that of weights apart", "7.7% where all stages"})
    EXPECT_NE(done.out.find(part), std::string::npos) << part << done.out;
  EXPECT_NE(testing::read_file(scratch.path() / "plan.svg").find("backward of weights of micro-batch 3, stage 1"),
            std::string::npos);
}

// Three ranks: a ring of an odd number, and micro-batches that hidden states of another stage pass by.
TEST(BenchPipeline, carries_out_every_schedule_between_real_processes) {
  Scratch scratch;
  const auto done = run(scratch, {"launch", "-n", "3", "--", "bench", "pipeline", "--forward-ms", "2",
                                  "--micro-batches", "6", "--message", "100KB", "--repeats", "2", "--folder", "out",
                                  "--schedule", "gpipe,1f1b,interleaved,zb-h1,zbv,dualpipev"});
  ASSERT_EQ(done.code, 0) << done.err;
  const auto found = json::parse(testing::read_file(scratch.path() / "out/pipeline.json"));
  ASSERT_EQ(found["rows"].size(), 6u);
  for (const auto& row : found["rows"]) {
    EXPECT_GT(row["step_ms"].get<double>(), 0.99 * row["planned_ms"].get<double>()) << row;
    EXPECT_GT(row["bubble"].get<double>(), 0) << row;
    const auto picture = testing::read_file(scratch.path() / "out" / (row["schedule"].get<std::string>() + "_ran.svg"));
    EXPECT_NE(picture.find("forward of micro-batch 5, stage 2"), std::string::npos);
  }
}

TEST(BenchPipeline, wants_ranks_and_says_which_micro_batches_a_ring_takes) {
  Scratch scratch;
  const auto alone = run(scratch, {"bench", "pipeline"});
  EXPECT_EQ(alone.code, 2) << alone.out;
  EXPECT_NE(alone.err.find("hyperion launch -n 4 -- bench pipeline"), std::string::npos) << alone.err;
  const auto odd = run(
      scratch, {"launch", "-n", "2", "--", "bench", "pipeline", "--micro-batches", "3", "--schedule", "interleaved"});
  EXPECT_EQ(odd.code, 2) << odd.out;
  EXPECT_NE(odd.err.find("no multiple"), std::string::npos) << odd.err;
}

}  // namespace
}  // namespace hyperion
