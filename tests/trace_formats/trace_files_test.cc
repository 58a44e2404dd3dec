#include "hyperion/trace_formats/trace_files.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/base/support_child.h"

namespace hyperion::trace {
namespace {

using base::test::error_of;

TEST(TraceFiles, are_those_of_a_folder_or_its_traces) {
  const base::test::TestFolder folder;
  for (const char* name : {"b.json", "a.json.gz", "notes.txt", ".hidden.json"}) std::ofstream(folder / name) << "x";
  EXPECT_EQ(trace_files(folder / "b.json").size(), 1U);
  ASSERT_EQ(trace_files(folder.path()).size(), 2U);
  for (const char* name : {"c.pftrace", "d.perfetto-trace"}) std::ofstream(folder / name) << "x";
  ASSERT_EQ(trace_files(folder.path()).size(), 4U);
  EXPECT_EQ(trace_files(folder.path())[0].path.filename(), "a.json.gz");
  std::filesystem::create_directory(folder / "traces");
  EXPECT_NE(error_of([&] { trace_files(folder.path()); }).find("has no trace"), std::string::npos);
  std::ofstream(folder / "traces/r.json") << "x";
  EXPECT_EQ(trace_files(folder.path())[0].path.filename(), "r.json");
  EXPECT_NE(error_of([&] { trace_files(folder / "none"); }).find("there is no trace"), std::string::npos);
}

}  // namespace
}  // namespace hyperion::trace
