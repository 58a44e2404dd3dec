// Runs whose model lies in stages and shards on several processes, as a user starts, stops and changes them.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::Program;
using testing::run;
using testing::says;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

Words launched(int ranks, const Words& command) { return Words{"launch", "-n", std::to_string(ranks), "--"} + command; }

// On 12 samples a step, in as many parts whatever the layout.
Words trained(const Scratch& scratch, const std::string& name, const Words& flags) {
  return Words{"train",
               testing::tiny_recipe(scratch).string(),
               "--run",
               name,
               "--device",
               "cpu",
               "--steps",
               "8",
               "--train.batch=12",
               "--model.layers=3",
               "--optim.schedule=constant",
               "--checkpoint.every=4",
               "--eval.prompts=1+2:,34+5:"} +
         flags;
}

struct Told {
  std::map<int64_t, double> losses, validations;
  std::map<int64_t, std::string> said;
};

Told told(const Scratch& scratch, const std::string& name) {
  Told told;
  std::ifstream lines(scratch.runs() / name / "metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    const int64_t step = record["step"];
    if (!record.contains("split"))
      told.losses[step] = record["loss"];
    else
      told.validations[step] = record["loss"], told.said[step] = record.value("samples", nlohmann::json()).dump();
  }
  return told;
}

void expect_same(const Told& found, const Told& expected) {
  ASSERT_EQ(found.losses.size(), expected.losses.size());
  for (const auto& [step, loss] : expected.losses) EXPECT_NEAR(found.losses.at(step), loss, 1e-4) << step;
  ASSERT_EQ(found.validations.size(), expected.validations.size());
  for (const auto& [step, loss] : expected.validations) EXPECT_NEAR(found.validations.at(step), loss, 1e-4) << step;
  EXPECT_EQ(found.said, expected.said);
}

// What a run leaves of the schedule of its last step, for the processes of its first pipeline.
void expect_schedule(const Scratch& scratch, const std::string& name, const std::string& err,
                     const std::vector<int>& ranks, size_t parts, const std::string& planned) {
  EXPECT_TRUE(says(err, "step 8: bubble ")) << err;
  EXPECT_TRUE(says(err, "% as it ran, " + planned)) << err;
  const auto picture = testing::read_file(scratch.runs() / name / "pipeline.svg");
  const auto times_in = [&](const std::string& part) {
    size_t found = 0;
    for (size_t at = picture.find(part); at != picture.npos; at = picture.find(part, at + 1)) ++found;
    return found;
  };
  for (const int rank : ranks)
    for (const char* which : {"planned", "as it ran"})
      EXPECT_EQ(times_in("rank " + std::to_string(rank) + ", " + which), 1U) << which;
  EXPECT_EQ(times_in("<title>forward of micro-batch"), 2 * ranks.size() * parts);
  EXPECT_EQ(times_in("<title>backward of micro-batch"), 2 * ranks.size() * parts);
  EXPECT_TRUE(says(testing::read_file(scratch.runs() / name / "report.html"), "data:image/svg+xml,"));
}

TEST(PipelineRun, learns_validates_and_answers_as_one_process_does) {
  Scratch scratch;
  const auto alone = run(scratch, trained(scratch, "alone", {"--train.accumulate=4"}));
  ASSERT_EQ(alone.code, 0) << alone.err;
  const auto staged =
      run(scratch, launched(3, trained(scratch, "staged", {"--train.accumulate=4", "--parallel", "pp=3"})));
  ASSERT_EQ(staged.code, 0) << staged.err;
  EXPECT_TRUE(says(staged.err, "3 stages of 1, 1 and 1 blocks, 1f1b over 4 micro-batches")) << staged.err;
  const auto both = run(scratch, launched(4, trained(scratch, "both",
                                                     {"--train.accumulate=2", "--parallel", "pp=2,dp=2", "--zero", "1",
                                                      "--parallel.schedule=gpipe"})));
  ASSERT_EQ(both.code, 0) << both.err;
  const auto expected = told(scratch, "alone");
  ASSERT_EQ(expected.losses.size(), 8U);
  ASSERT_FALSE(expected.said.empty());
  expect_schedule(scratch, "staged", staged.err, {0, 1, 2}, 4, "33.3% planned");
  expect_schedule(scratch, "both", both.err, {0, 2}, 2, "33.3% planned");
  EXPECT_FALSE(std::filesystem::exists(scratch.runs() / "alone" / "pipeline.svg"));
  expect_same(told(scratch, "staged"), expected);
  expect_same(told(scratch, "both"), expected);
}

TEST(ShardedRun, learns_validates_and_answers_as_one_process_does) {
  Scratch scratch;
  const Words parts{"--train.accumulate=2"};
  ASSERT_EQ(run(scratch, trained(scratch, "alone", parts)).code, 0);
  const auto expected = told(scratch, "alone");
  ASSERT_EQ(expected.losses.size(), 8U);
  ASSERT_FALSE(expected.said.empty());
  for (const auto& [name, ranks, flags] : std::vector<std::tuple<std::string, int, Words>>{
           {"cut", 2, {"--parallel", "tp=2"}},
           {"sequence", 2, {"--parallel", "tp=2", "--parallel.sequence=true"}},
           {"auto", 4, {"--parallel", "auto"}}}) {
    const auto done = run(scratch, launched(ranks, trained(scratch, name, parts + flags)));
    ASSERT_EQ(done.code, 0) << done.err;
    expect_same(told(scratch, name), expected);
    EXPECT_TRUE(name != "auto" || says(done.err, "pp=2,tp=2")) << done.err;
  }
}

TEST(ShardedRun, is_killed_and_goes_on_in_another_layout) {
  Scratch scratch;
  ASSERT_EQ(run(scratch, trained(scratch, "alone", {"--train.accumulate=2"})).code, 0);
  {
    Program job(scratch,
                launched(4, trained(scratch, "moved",
                                    {"--parallel", "tp=2,dp=2", "--zero", "2", "--train.accumulate=1",
                                     "--parallel.sequence=true"})),
                {{"HYPERION_FAULTS", "train.step=kill@7"}});
    EXPECT_NE(job.wait().code, 0);
  }
  const auto moved =
      run(scratch, launched(4, {"resume", "moved", "--parallel", "pp=2,tp=2", "--zero", "0", "--train.accumulate=2"}));
  ASSERT_EQ(moved.code, 0) << moved.err;
  EXPECT_TRUE(says(moved.err, "resuming after step 6")) << moved.err;
  expect_same(told(scratch, "moved"), told(scratch, "alone"));
  const Finished further =
      run(scratch, {"resume", "moved", "--steps", "9", "--parallel", "dp=1", "--parallel.sequence=false"});
  EXPECT_EQ(further.code, 0) << further.err;
  EXPECT_EQ(run(scratch, {"export", "moved", "--to", (scratch.path() / "hf").string()}).code, 0);
  // An adapter beside what that wrote, alone and cut.
  const auto adapter = [&](const std::string& name, const Words& flags) {
    testing::write_file(scratch.path() / "adapter.toml", "[data]\ndigits = 2\n");
    return Words{"train",
                 (scratch.path() / "adapter.toml").string(),
                 "--run",
                 name,
                 "--device",
                 "cpu",
                 "--steps",
                 "4",
                 "--train.batch=12",
                 "--train.accumulate=2",
                 "--train.length=24",
                 "--lora.rank=4",
                 "--lora.dropout=0.1",
                 "--model.from=" + (scratch.path() / "hf").string()} +
           flags;
  };
  const auto whole = run(scratch, adapter("adapter-alone", {}));
  ASSERT_EQ(whole.code, 0) << whole.err;
  const auto cut = run(scratch, launched(2, adapter("adapter", {"--parallel", "tp=2"})));
  ASSERT_EQ(cut.code, 0) << cut.err;
  expect_same(told(scratch, "adapter"), told(scratch, "adapter-alone"));
}

// In 8 bits: the largest values that scales come from are in a checkpoint once, those of the whole model.
TEST(ShardedRun, in_8_bits_goes_on_in_another_layout) {
  Scratch scratch;
  const Words parts{"--train.accumulate=2"}, narrow{"--precision", "fp8"};
  ASSERT_EQ(run(scratch, trained(scratch, "alone", parts + narrow)).code, 0);
  ASSERT_EQ(run(scratch, trained(scratch, "wide", parts + Words{"--precision", "bf16"})).code, 0);
  {
    Program job(scratch, launched(2, trained(scratch, "moved", parts + narrow + Words{"--parallel", "tp=2"})),
                {{"HYPERION_FAULTS", "train.step=kill@7"}});
    EXPECT_NE(job.wait().code, 0);
  }
  const auto staged = run(scratch, launched(2, {"resume", "moved", "--parallel", "pp=2"}));
  ASSERT_EQ(staged.code, 0) << staged.err;
  EXPECT_TRUE(says(staged.err, "resuming after step 6")) << staged.err;
  const auto alone = run(scratch, {"resume", "moved", "--steps", "9", "--parallel", "dp=1"});
  EXPECT_EQ(alone.code, 0) << alone.err;
  const auto expected = told(scratch, "alone").losses, wide = told(scratch, "wide").losses;
  const auto found = told(scratch, "moved").losses;
  ASSERT_EQ(expected.size(), 8U);
  for (const auto& [step, loss] : expected) EXPECT_NEAR(found.at(step), loss, 0.03) << step;
  EXPECT_NE(expected.at(8), wide.at(8)) << "products were made in bf16";
}

TEST(PipelineRun, that_cannot_be_is_refused_with_what_would_do) {
  Scratch scratch;
  const auto refused = [&](int ranks, const Words& flags) {
    const auto done = run(scratch, launched(ranks, trained(scratch, "refused", flags)));
    EXPECT_EQ(done.code, 2) << done.err;
    return done.err;
  };
  EXPECT_TRUE(says(refused(4, {"--parallel", "pp=4"}), "at most 3 stages"));
  EXPECT_TRUE(says(refused(2, {"--parallel", "pp=2", "--parallel.chunks=2"}), "interleaved"));
  EXPECT_TRUE(says(refused(2, {"--parallel", "ep=2"}), "use dp=2,ep=2"));
  EXPECT_TRUE(says(refused(2, {"--parallel", "dp=2,ep=2"}), "this model has none"));
  EXPECT_TRUE(says(refused(2, {"--parallel", "dp=2,ep=2", "--deterministic=layout"}), "same_bits: an expert of ep"));
  EXPECT_TRUE(says(refused(2, {"--parallel", "cp=2", "--train.length=26"}), "train.length that 4 divides: 24 or 28"));
  EXPECT_TRUE(says(refused(2, {"--parallel", "cp=2", "--deterministic=layout"}), "same_bits"));
  EXPECT_TRUE(says(refused(3, {"--parallel", "tp=3"}), "sizes of tp that do: 1, 2"));
  EXPECT_TRUE(says(refused(3, {"--parallel", "tp=3", "--dry-run"}), "sizes of tp that do: 1, 2"));
  EXPECT_TRUE(says(refused(2, {"--parallel", "tp=2", "--train.length=23", "--parallel.sequence=true"}),
                   "does not divide the 23 tokens"));
  const auto bits = refused(2, {"--parallel", "tp=2", "--deterministic=layout"});
  EXPECT_TRUE(says(bits, "same_bits: of a layer that tp cuts, parts of a product are added up in another order"))
      << bits;
  EXPECT_TRUE(says(bits, "use --parallel dp=2, or leave parallel.same_bits out")) << bits;
  EXPECT_TRUE(says(refused(2, {"--parallel", "pp=2", "--train.accumulate=3", "--parallel.schedule=interleaved"}),
                   "take 2 or 4 (train.accumulate, --micro-batches)"));
}

}  // namespace
}  // namespace hyperion
