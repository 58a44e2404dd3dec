// `hyperion trace`: what profilers recorded, from the command line.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using nlohmann::json;
using testing::run;
using testing::says;
using testing::Scratch;

// One rank: three kernels of `microseconds`, launched in time, and a collective of what is left to 1000.
std::string trace_of(int rank, int microseconds) {
  json events = json::array();
  const auto add = [&](const std::string& category, const std::string& name, int begin, int duration,
                       const json& args) {
    events.push_back({{"ph", "X"},
                      {"cat", category},
                      {"name", name},
                      {"pid", rank},
                      {"tid", 1},
                      {"ts", begin},
                      {"dur", duration},
                      {"args", args}});
  };
  for (int i = 0; i < 3; ++i) {
    add("cpu_op", "aten::mm", 10 * i, 5, {{"External id", i + 1}});
    add("cuda_runtime", "cudaLaunchKernel", 10 * i + 1, 2, {{"correlation", i + 1}, {"External id", i + 1}});
    add("kernel", "gemm", 100 + i * microseconds, microseconds,
        {{"correlation", i + 1}, {"External id", i + 1}, {"stream", 7}, {"device", rank}});
  }
  add("kernel", "ncclDevKernel_AllReduce", 100 + 3 * microseconds, 900 - 3 * microseconds,
      {{"correlation", 9}, {"stream", 20}, {"device", rank}});
  return json({{"schemaVersion", 1}, {"distributedInfo", {{"rank", rank}, {"world_size", 2}}}, {"traceEvents", events}})
      .dump(1);
}

TEST(TraceCommands, analyze_tells_times_of_every_rank_and_who_is_waited_for) {
  Scratch scratch;
  for (const int rank : {0, 1})
    testing::write_file(scratch.path() / ("rank-" + std::to_string(rank) + ".json"),
                        trace_of(rank, rank == 1 ? 250 : 200));
  const auto text = run(scratch, {"trace", "analyze", scratch.path().string()});
  ASSERT_EQ(text.code, 0) << text.err;
  for (const char* part : {"time on the device", "idle by cause", "gemm", "aten::mm", "rank 1 is waited for",
                           "it computes 0.150 ms longer"})
    EXPECT_TRUE(says(text.out, part)) << part << text.out;
  const auto done = run(scratch, {"trace", "analyze", (scratch.path() / "rank-1.json").string(), "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  const auto times = json::parse(done.out)["ranks"][0]["times"];
  EXPECT_EQ(times["compute_us"], 750.0);
  EXPECT_EQ(times["communication_us"], 150.0);
  EXPECT_EQ(times["idle_us"], 0.0);
}

TEST(TraceCommands, analyze_writes_a_page_where_one_is_asked_for) {
  Scratch scratch;
  const auto folder = scratch.path() / "traces", page = scratch.path() / "page.html";
  std::filesystem::create_directory(folder);
  for (const int rank : {0, 1})
    testing::write_file(folder / ("rank-" + std::to_string(rank) + ".json"), trace_of(rank, rank == 1 ? 250 : 200));
  const auto done = run(scratch, {"trace", "analyze", folder.string(), "--html", page.string()});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(says(done.out, "page: " + page.string())) << done.out;
  const auto html = testing::read_file(page);
  for (const char* part : {"Rank 1 is waited for", "id=\"lanes\"", "id=\"rank-1\"", "</html>"})
    EXPECT_TRUE(says(html, part)) << part;
  const auto refused = run(scratch, {"trace", "analyze", folder.string(), "--html", (folder / "page.txt").string()});
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(says(refused.err, ".html")) << refused.err;
}

TEST(TraceCommands, analyze_tells_what_communication_was_exposed_and_how_clocks_stand) {
  Scratch scratch;
  for (const int rank : {0, 1})
    testing::write_file(scratch.path() / ("rank-" + std::to_string(rank) + ".json"),
                        trace_of(rank, rank == 1 ? 250 : 200));
  const auto text = run(scratch, {"trace", "analyze", scratch.path().string()});
  ASSERT_EQ(text.code, 0) << text.err;
  for (const char* part : {"communication by group", "waited for ranks", "clocks, from their collectives"})
    EXPECT_TRUE(says(text.out, part)) << part << text.out;
  const auto done = run(scratch, {"trace", "analyze", scratch.path().string(), "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  const auto found = json::parse(done.out)["communication"];
  EXPECT_EQ(found["clocks"][1]["offset_us"], 0.0);
  EXPECT_EQ(found["groups"][0]["exposed_us"], (300.0 + 150.0) / 2);
  EXPECT_EQ(found["groups"][0]["waited_us"], 150.0 / 2);
}

TEST(TraceCommands, critical_path_goes_through_the_rank_that_came_last) {
  Scratch scratch;
  for (const int rank : {0, 1})
    testing::write_file(scratch.path() / ("rank-" + std::to_string(rank) + ".json"),
                        trace_of(rank, rank == 1 ? 250 : 200));
  const auto text = run(scratch, {"trace", "critical-path", scratch.path().string()});
  ASSERT_EQ(text.code, 0) << text.err;
  for (const char* part : {"critical path over 2 ranks", "gemm", "a step without it", "rank 1"})
    EXPECT_TRUE(says(text.out, part)) << part << text.out;
  const auto done =
      run(scratch, {"trace", "critical-path", scratch.path().string(), "--what-if", "rank=1,communication", "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  const auto found = json::parse(done.out);
  EXPECT_EQ(found["kinds_step_us"]["compute"], 750.0);
  EXPECT_EQ(found["kinds_step_us"]["communication"], 150.0);
  EXPECT_EQ(found["step_us"], 1000.0);
  EXPECT_EQ(found["without"][0]["step_us"], 850.0);
  EXPECT_EQ(found["without"][1]["step_us"], 850.0);
  const auto none = run(scratch, {"trace", "critical-path", scratch.path().string(), "--what-if", "rank=5"});
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(says(none.err, "there is no trace of rank 5")) << none.err;
}

TEST(TraceCommands, diff_exits_1_where_a_kernel_became_slower) {
  Scratch scratch;
  const auto before = (scratch.path() / "before.json").string(), after = (scratch.path() / "after.json").string();
  testing::write_file(before, trace_of(0, 200));
  testing::write_file(after, trace_of(0, 220));
  const auto slower = run(scratch, {"trace", "diff", before, after});
  EXPECT_EQ(slower.code, 1) << slower.err;
  EXPECT_TRUE(says(slower.out, "slower")) << slower.out;
  EXPECT_EQ(run(scratch, {"trace", "diff", before, before}).code, 0);
  EXPECT_EQ(run(scratch, {"trace", "diff", before, after, "--threshold", "15"}).code, 0);
}

TEST(TraceCommands, show_counts_events_and_lists_the_longest) {
  Scratch scratch;
  const auto file = (scratch.path() / "a.json").string();
  testing::write_file(file, trace_of(0, 200));
  const auto text = run(scratch, {"trace", "show", file, "--category", "kernel", "--top", "1"});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(says(text.out, "10 events, rank 0 of 2")) << text.out;
  EXPECT_TRUE(says(text.out, "ncclDevKernel_AllReduce")) << text.out;
  const auto done = run(scratch, {"trace", "show", file, "--name", "gemm", "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(json::parse(done.out)[0]["matching"], 3);
}

TEST(TraceCommands, a_file_that_is_no_trace_is_refused_with_its_place) {
  Scratch scratch;
  const auto file = (scratch.path() / "a.json").string();
  testing::write_file(file, trace_of(0, 200).substr(0, 500));
  const auto cut = run(scratch, {"trace", "analyze", file});
  EXPECT_EQ(cut.code, 1);
  EXPECT_TRUE(says(cut.err, "a.json is no trace that can be read: it ends in the middle of its events, at byte 500"))
      << cut.err;
  EXPECT_EQ(run(scratch, {"trace", "analyze", (scratch.path() / "none.json").string()}).code, 2);
}

}  // namespace
}  // namespace hyperion
