// `hyperion trace export`: from JSON to our own file and back, from the command line.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "hyperion/base/files.h"
#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using nlohmann::json;
using testing::run;
using testing::says;
using testing::Scratch;

const char kTrace[] = R"({"schemaVersion": 1, "distributedInfo": {"rank": 3}, "traceEvents": [
  {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1.5, "dur": 2.25, "args": {"stream": 7}},
  {"ph": "b", "name": "open", "pid": 7, "tid": 7, "ts": 1, "id": 4}
], "traceName": "x"})";

TEST(TraceExport, own_files_give_back_the_same_json) {
  Scratch scratch;
  const auto first = scratch.path() / "a.json", folder = scratch.path() / "out";
  testing::write_file(first, kTrace);
  const auto packed = run(scratch, {"trace", "export", first.string(), "--to", "own", "--output", folder.string()});
  ASSERT_EQ(packed.code, 0) << packed.err;
  EXPECT_TRUE(says(packed.out, "rank-3.htrace")) << packed.out;
  EXPECT_TRUE(says(run(scratch, {"trace", "show", folder.string()}).out, "2 events, rank 3"));
  const auto back = run(scratch, {"trace", "export", folder.string(), "--to", "chrome", "--output", folder.string()});
  ASSERT_EQ(back.code, 0) << back.err;
  EXPECT_EQ(json::parse(base::real_files().read(folder / "rank-3.json")), json::parse(kTrace));
}

TEST(TraceExport, perfetto_says_what_it_leaves_out_and_nothing_is_written_over_itself) {
  Scratch scratch;
  const auto first = scratch.path() / "rank-3.json";
  testing::write_file(first, kTrace);
  const auto folder = scratch.path().string();
  const auto packets = run(scratch, {"trace", "export", first.string(), "--to", "perfetto", "--output", folder});
  ASSERT_EQ(packets.code, 0) << packets.err;
  EXPECT_TRUE(says(packets.err, "1 of 2 events have no place in this format")) << packets.err;
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "rank-3.pftrace"));
  const auto shown = run(scratch, {"trace", "show", (scratch.path() / "rank-3.pftrace").string()});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_TRUE(says(shown.out, "gemm")) << shown.out;
  const auto over = run(scratch, {"trace", "export", first.string(), "--to", "chrome", "--output", folder});
  EXPECT_EQ(over.code, 2);
  EXPECT_TRUE(says(over.err, "would be written over itself")) << over.err;
  const auto gzip = run(scratch, {"trace", "export", first.string(), "--to", "own", "--gzip", "--output", folder});
  EXPECT_EQ(gzip.code, 2);
}

}  // namespace
}  // namespace hyperion
