#include "hyperion/trace/run_trace.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "hyperion/base/error.h"
#include "hyperion/trace/read_trace.h"
#include "tests/base/support_child.h"

namespace hyperion::trace {
namespace {

class RunTrace : public ::testing::Test {
 protected:
  base::Path kineto() const { return folder_ / "kineto"; }
  base::Path joined() const { return folder_ / "joined.htrace"; }
  void write(const std::string& text) { std::ofstream(kineto()) << text; }
  base::test::TestFolder folder_;
};

// Kineto's clock counts from its base; the spans' from somewhere else.
TEST_F(RunTrace, has_spans_and_operations_on_one_clock) {
  write(R"({"schemaVersion": 1, "baseTimeNanoseconds": 1000000, "traceEvents": [
  {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 9, "ts": 5.25, "dur": 2.5}
], "traceName": "x"})");
  profile::RecordedSpans spans;
  spans.spans = {{.name = "block \"a\"",
                  .thread = 3,
                  .begin = 2'000,
                  .end = 4'500,
                  .bytes = 64,
                  .rank = 1,
                  .step = 8,
                  .group = "layers",
                  .ranks = "0, 1",
                  .number = 4}};
  finish_trace(kineto(), spans, /*clock_offset=*/1'000'000, joined());
  EXPECT_FALSE(std::filesystem::exists(kineto()));
  const auto trace = read_trace(joined());
  ASSERT_EQ(trace.size(), 4u) << "two of them name the process and its thread";
  size_t found = 0;
  for (size_t i = 0; i < trace.size(); ++i) {
    if (trace.name_text(i) == "aten::mm") found += trace.begin[i] == 5250 && trace.duration[i] == 2500 ? 1 : 0;
    if (trace.name_text(i) == "block \"a\"") {
      found += trace.begin[i] == 2000 && trace.duration[i] == 2500 ? 1 : 0;
      EXPECT_EQ(trace.integer_arg(i, "bytes"), 64);
      EXPECT_EQ(trace.integer_arg(i, "step"), 8);
      EXPECT_EQ(trace.arg(i, "group"), "\"layers\"");
      EXPECT_EQ(trace.arg(i, "ranks"), "\"0, 1\"");
      EXPECT_EQ(trace.integer_arg(i, "number"), 4);
      EXPECT_EQ(trace.tracks[trace.track[i]].pid, "\"hyperion\"");
    }
  }
  EXPECT_EQ(found, 2u);
}

TEST_F(RunTrace, of_something_else_is_an_error_that_leaves_nothing) {
  write("{}");
  EXPECT_THROW(finish_trace(kineto(), {}, 0, joined()), base::CorruptError);
  EXPECT_TRUE(std::filesystem::is_empty(joined().parent_path()));
}

TEST_F(RunTrace, of_a_run_is_that_of_its_newest_steps) {
  EXPECT_TRUE(newest_recording(folder_.path()).empty());
  std::filesystem::create_directory(folder_ / "traces");
  for (const auto& path : {trace_path(folder_.path(), 4, 0), trace_path(folder_.path(), 100, 1),
                           trace_path(folder_.path(), 20, 0), trace_path(folder_.path(), 100, 0)})
    std::ofstream(path) << "[]";
  std::ofstream(folder_ / "traces/step-200.rank-0.htrace.partial-joined") << "[";
  EXPECT_EQ(newest_recording(folder_.path()),
            (std::vector<base::Path>{trace_path(folder_.path(), 100, 0), trace_path(folder_.path(), 100, 1)}));
}

}  // namespace
}  // namespace hyperion::trace
