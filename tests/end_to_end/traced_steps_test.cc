// `train --profile`: some steps of a run are traced on every process, and the run is the same.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

namespace fs = std::filesystem;
using testing::Finished;
using testing::run;
using testing::says;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

Words trained(const Scratch& scratch, const std::string& name, const Words& flags) {
  return Words{"train", testing::tiny_recipe(scratch).string(), "--run", name, "--device", "cpu", "--steps", "9"} +
         flags;
}

nlohmann::json exported(const Scratch& scratch, const std::string& trace, int rank = 0) {
  const fs::path folder = scratch.path() / "exported";
  const Finished done = run(scratch, {"trace", "export", trace, "--to", "chrome", "--output", folder.string()});
  EXPECT_EQ(done.code, 0) << done.err;
  std::ifstream in(folder / ("rank-" + std::to_string(rank) + ".json"));
  return nlohmann::json::parse(in);
}

std::set<std::string> names_in(const nlohmann::json& trace) {
  std::set<std::string> names;
  for (const auto& event : trace.at("traceEvents")) names.insert(event.value("name", ""));
  return names;
}

TEST(TracedSteps, are_written_beside_the_run_and_change_nothing_of_it) {
  Scratch scratch;
  ASSERT_EQ(run(scratch, trained(scratch, "plain", {})).code, 0);
  const Finished done = run(scratch, trained(scratch, "traced", {"--profile", "1+2@3,every=4"}));
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(testing::losses(scratch.runs() / "traced"), testing::losses(scratch.runs() / "plain"));
  const fs::path traces = scratch.runs() / "traced" / "traces";
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(traces)) files.insert(entry.path().filename());
  EXPECT_EQ(files, (std::set<std::string>{"step-4.rank-0.htrace", "step-8.rank-0.htrace"}));
  const auto trace = exported(scratch, (traces / "step-4.rank-0.htrace").string());
  const auto names = names_in(trace);
  for (const char* name : {"ProfilerStep#4", "ProfilerStep#5", "step", "forward", "backward", "update", "aten::addmm",
                           "block transformer.h.0"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_FALSE(names.contains("ProfilerStep#3") || names.contains("ProfilerStep#6"));
  EXPECT_EQ(trace.at("distributedInfo").at("rank"), 0);
  // What the program told of itself lies within the steps that kineto marked.
  double begin = 0, end = 0;
  for (const auto& event : trace.at("traceEvents"))
    if (event.value("name", "") == "ProfilerStep#4" && event.at("ph") == "X" && event.at("pid").is_number())
      begin = event.at("ts"), end = begin + event.at("dur").get<double>();
  ASSERT_GT(end, begin);
  int within = 0;
  for (const auto& event : trace.at("traceEvents"))
    if (event.value("name", "") == "forward" && event.at("pid") == "hyperion")
      within += event.at("ts") >= begin && event.at("ts").get<double>() + event.at("dur").get<double>() <= end ? 1 : 0;
  EXPECT_EQ(within, 2) << "a forward of each part of the batch";
  const Finished shown = run(scratch, {"trace", "analyze", "traced", "--json"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  // Where it was in the model: each block forward and backward, and all rows with what is idle are the step.
  const auto layers = nlohmann::json::parse(shown.out).at("layers").at(0);
  double sum = layers.at("idle_us").get<double>() - layers.at("at_once_us").get<double>();
  int blocks = 0;
  for (const auto& row : layers.at("rows")) {
    for (const auto& [phase, time] : row.at("times_us").items()) sum += time.get<double>();
    if (row.at("block") != true) continue;
    ++blocks;
    EXPECT_GT(row.at("times_us").at("forward").get<double>(), 0) << row;
    EXPECT_GT(row.at("times_us").at("backward").get<double>(), 0) << row;
  }
  EXPECT_GT(blocks, 0);
  EXPECT_NEAR(sum, layers.at("step_us").get<double>(), 1);
  EXPECT_TRUE(says(run(scratch, {"trace", "analyze", "traced"}).out, "blocks, ms of a step (on the first thread)"));
}

// All parts of the model together are the operations that the metrics count.
TEST(TracedSteps, are_held_against_the_machines_ceiling) {
  Scratch scratch;
  ASSERT_EQ(run(scratch, trained(scratch, "traced", {"--profile", "1+2@3"})).code, 0);
  const Finished shown = run(scratch, {"trace", "roofline", "traced", "--json"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  const auto roofline = nlohmann::json::parse(shown.out);
  EXPECT_GT(roofline.at("peak_tflops").get<double>(), 0) << "measured";
  double flops = 0, time = roofline.at("elsewhere_us").get<double>();
  for (const auto& row : roofline.at("rows")) {
    flops += row.at("flops").get<double>(), time += row.at("us").get<double>();
    EXPECT_GT(row.at("percent_of_ceiling").get<double>(), 0) << row;
    EXPECT_LT(row.at("percent_of_ceiling").get<double>(), 150) << row;
  }
  EXPECT_NEAR(time, roofline.at("step_us").get<double>(), 1);
  std::ifstream metrics(scratch.runs() / "traced" / "metrics.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(metrics, line));
  const auto step = nlohmann::json::parse(line);
  const double counted = step.at("tflops").get<double>() * step.at("step_ms").get<double>() * 1e9;
  EXPECT_NEAR(flops / counted, 1, 1e-6);
  const Finished table = run(scratch, {"trace", "roofline", "traced"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_TRUE(says(table.out, "% of ceiling")) << table.out;
  EXPECT_EQ(run(scratch, {"trace", "roofline", "nowhere"}).code, 2);
}

TEST(TracedSteps, are_those_of_every_process) {
  Scratch scratch;
  const Finished done =
      run(scratch, Words{"launch", "-n", "2", "--"} + trained(scratch, "two", {"--zero", "2", "--profile", "2@2"}));
  ASSERT_EQ(done.code, 0) << done.err;
  for (const int rank : {0, 1}) {
    const auto trace = exported(scratch, "two", rank);
    EXPECT_EQ(trace.at("distributedInfo").at("rank"), rank);
    EXPECT_EQ(trace.at("distributedInfo").at("world_size"), 2);
    EXPECT_EQ(trace.at("distributedInfo").at("backend"), "gloo");
    EXPECT_TRUE(names_in(trace).contains("reduce_scatter gradients")) << rank;
  }
  // Packets say no rank: each is of its place.
  const auto packets = (scratch.path() / "packets").string();
  ASSERT_EQ(run(scratch, {"trace", "export", "two", "--to", "perfetto", "--output", packets}).code, 0);
  const Finished again = run(scratch, {"trace", "analyze", packets, "--json"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(nlohmann::json::parse(again.out).at("ranks").at(1).at("rank"), 1);
  EXPECT_EQ(run(scratch, {"trace", "critical-path", packets}).code, 0);
}

// What one sends the other receives, by number; where each stands still is told from both.
TEST(TracedSteps, of_a_pipeline_tell_its_bubble) {
  Scratch scratch;
  const Finished done = run(scratch, Words{"launch", "-n", "2", "--"} +
                                         trained(scratch, "stages", {"--parallel", "pp=2", "--profile", "1+2@3"}));
  ASSERT_EQ(done.code, 0) << done.err;
  const Finished shown = run(scratch, {"trace", "analyze", "stages", "--json"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  const auto communication = nlohmann::json::parse(shown.out).at("communication");
  EXPECT_TRUE(communication.at("lacking").empty()) << communication.at("lacking");
  const auto& pipeline = communication.at("pipeline");
  EXPECT_EQ(pipeline.at("steps"), 2);
  EXPECT_EQ(pipeline.at("clocks_known"), true);
  ASSERT_EQ(pipeline.at("ranks").size(), 2U);
  for (size_t rank = 0; rank < 2; ++rank) {
    const auto& own = pipeline.at("ranks")[rank];
    EXPECT_EQ(own.at("stages"), nlohmann::json::array({rank}));
    EXPECT_GT(own.at("work_us").get<double>(), 0);
    double all = 0;
    for (const char* part : {"work_us", "before_us", "between_us", "after_us"}) all += own.at(part).get<double>();
    EXPECT_NEAR(all, pipeline.at("time_us").get<double>(), 1) << rank;
  }
  std::set<std::string> links;
  for (const auto& group : communication.at("groups"))
    if (group.at("axis") == "pp") links.insert(group.at("group"));
  EXPECT_TRUE(links.contains("hidden states 0, 1") && links.contains("hidden gradients 1, 0")) << communication;
  const Finished path = run(scratch, {"trace", "critical-path", "stages"});
  EXPECT_EQ(path.code, 0) << path.err;
}

TEST(TracedSteps, tell_who_held_memory_where_allocations_are_recorded) {
  Scratch scratch;
  ASSERT_EQ(run(scratch, trained(scratch, "plain", {"--profile", "1+1@3"})).code, 0);
  const Finished none = run(scratch, {"trace", "memory", "plain"});
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(says(none.err, "1+3@100,memory")) << none.err;
  ASSERT_EQ(run(scratch, trained(scratch, "held", {"--profile", "1+2@3,memory"})).code, 0);
  EXPECT_EQ(testing::losses(scratch.runs() / "held"), testing::losses(scratch.runs() / "plain"));
  const Finished done = run(scratch, {"trace", "memory", "held", "--json", "--top", "1000"});
  ASSERT_EQ(done.code, 0) << done.err;
  const auto device = nlohmann::json::parse(done.out)[0]["devices"][0];
  EXPECT_EQ(device["device"], "cpu");
  int64_t sum = 0, most = 0;
  std::string names;
  for (const auto& holder : device["holders"])
    sum += holder["bytes"].get<int64_t>(), names += holder["name"].get<std::string>() + "\n";
  for (const auto& point : device["points_us_bytes"]) most = std::max(most, point[1].get<int64_t>());
  EXPECT_EQ(sum, device["peak"].get<int64_t>());
  EXPECT_EQ(most, device["peak"].get<int64_t>());
  EXPECT_TRUE(says(names, "forward, block transformer.h.0, aten::")) << names;
  const Finished table = run(scratch, {"trace", "memory", "held"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_TRUE(says(table.out, "MiB at the peak")) << table.out;
}

// What was recorded until then, whether the run ends by itself or is stopped.
TEST(TracedSteps, that_the_runs_end_cuts_short_are_written) {
  Scratch scratch;
  const Finished done = run(scratch, trained(scratch, "short", {"--profile", "1+5@7"}));
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(says(done.err + done.out, "ends with the run, after step 9")) << done.err;
  const auto names = names_in(exported(scratch, "short"));
  EXPECT_TRUE(names.contains("ProfilerStep#8") && names.contains("ProfilerStep#9"));
  const Finished late = run(scratch, trained(scratch, "late", {"--profile", "1+5@9"}));
  EXPECT_TRUE(says(late.err, "traces nothing: the run ends with step 9")) << late.err;
  const Finished none = run(scratch, {"trace", "analyze", "late"});
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(says(none.err, "run late has no traces") || says(none.err, "has no trace")) << none.err;
}

TEST(TracedSteps, without_kernels_are_not_compared) {
  Scratch scratch;
  ASSERT_EQ(run(scratch, trained(scratch, "plain", {"--profile", "1+1@3"})).code, 0);
  const Finished done = run(scratch, {"trace", "diff", "plain", "plain"});
  EXPECT_EQ(done.code, 2);
  EXPECT_TRUE(says(done.err, "plain has no kernels to compare")) << done.err;
}

TEST(TracedSteps, that_cannot_be_read_are_refused_before_anything_is_made) {
  Scratch scratch;
  const Finished done = run(scratch, trained(scratch, "none", {"--profile", "1+3@"}));
  EXPECT_EQ(done.code, 2);
  EXPECT_TRUE(says(done.err, "train.profile")) << done.err;
  EXPECT_FALSE(fs::exists(scratch.runs() / "none"));
}

}  // namespace
}  // namespace hyperion
