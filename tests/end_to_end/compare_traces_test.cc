// `hyperion compare` of traces, and of things of two kinds.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::run;
using testing::says;
using testing::Scratch;
using testing::write_file;

// Two kernels of a stream, the first of so many microseconds.
std::string trace_of(double duration) {
  nlohmann::json events = nlohmann::json::array();
  for (const auto& [name, begin, length] : {std::tuple{"gemm", 0.0, duration}, {"gelu", 300.0, 50.0}})
    events.push_back({{"ph", "X"},
                      {"cat", "kernel"},
                      {"name", name},
                      {"pid", 0},
                      {"tid", 7},
                      {"ts", begin},
                      {"dur", length},
                      {"args", {{"device", 0}, {"stream", 7}, {"correlation", begin}}}});
  return nlohmann::json{{"schemaVersion", 1}, {"traceEvents", events}}.dump();
}

TEST(CompareTraces, is_what_trace_diff_says) {
  Scratch scratch;
  const auto before = (scratch.path() / "before.json").string(), folder = (scratch.path() / "after").string();
  write_file(before, trace_of(100));
  std::filesystem::create_directory(folder);
  write_file(folder + "/rank-0.json", trace_of(200));
  const auto compared = run(scratch, {"compare", before, folder}),
             diff = run(scratch, {"trace", "diff", before, folder});
  EXPECT_EQ(compared.code, 1) << compared.err;
  EXPECT_EQ(compared.out, diff.out);
  EXPECT_TRUE(says(compared.out, "gemm")) << compared.out;
  EXPECT_EQ(run(scratch, {"compare", folder, before}).code, 0);
  EXPECT_EQ(run(scratch, {"compare", before, folder, "--fail-over", "300%"}).code, 0);
  EXPECT_EQ(run(scratch, {"compare", before, folder, "--json"}).out,
            run(scratch, {"trace", "diff", before, folder, "--json"}).out);
}

TEST(CompareTraces, and_results_of_a_bench_are_not_mixed) {
  Scratch scratch;
  const auto trace = (scratch.path() / "a.json").string(), bench = (scratch.path() / "b.json").string();
  write_file(trace, trace_of(100));
  write_file(bench, R"({"bench": "train", "device_name": "x", "figures": []})");
  const auto refused = [&](const std::vector<std::string>& words, const std::string& why) {
    const auto done = run(scratch, words);
    EXPECT_EQ(done.code, 2) << done.out;
    EXPECT_TRUE(says(done.err, why) && says(done.err, "hint: ")) << done.err;
  };
  refused({"compare", trace, bench},
          "a.json is a trace, " + bench + " is a result of a bench: they cannot be compared");
  refused({"compare", trace, (scratch.path() / "none.json").string()},
          "there is no " + (scratch.path() / "none.json").string());
  refused({"compare", trace, trace, trace}, "traces are compared by two, and there are 3");
  refused({"compare", trace, trace, "--html", "x.html"},
          "--html draws the curves of training runs, and these are traces");
  refused({"report", trace, "--output", (scratch.path() / "x.md").string()}, "is a trace");
}

}  // namespace
}  // namespace hyperion
