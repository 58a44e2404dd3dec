#include "hyperion/bench/outcome.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "hyperion/base/error.h"
#include "hyperion/base/faulty_files.h"
#include "hyperion/bench/child.h"

namespace hyperion::bench {
namespace {

TEST(Outcome, columns_stand_under_each_other) {
  EXPECT_EQ(aligned({{"a", "bb"}, {"longer", "1", "x"}}), "a       bb\nlonger   1  x\n");
  EXPECT_EQ(aligned({}), "");
}

TEST(Outcome, csv_quotes_what_needs_it) {
  EXPECT_EQ(csv_text({{"a,b", "say \"x\"", "c"}}), "\"a,b\",\"say \"\"x\"\"\",c\n");
}

TEST(Outcome, the_json_comes_last_so_that_what_is_there_is_complete) {
  const auto folder = base::Path(testing::TempDir()) / "outcome_files";
  std::filesystem::remove_all(folder);
  const Outcome outcome{"x", "table", "{}", "a,b\n", {{"x.svg", std::string(200, 's')}}};
  base::FaultyFileSystem full;
  full.set_capacity(100);
  EXPECT_THROW(write_outcome(outcome, folder, full), base::FileError);
  EXPECT_FALSE(std::filesystem::exists(folder / "x.json"));
  write_outcome(outcome, folder);
  for (const char* name : {"x.txt", "x.json", "x.csv", "x.svg"})
    EXPECT_TRUE(std::filesystem::exists(folder / name)) << name;
}

TEST(Child, its_lines_and_its_exit_code_come_back) {
  std::vector<std::string> lines;
  const int code = run_child({"sh", "-c", "printf 'one\\ntwo\\nlast'; exit 3"},
                             [&](std::string_view line) { lines.emplace_back(line); });
  EXPECT_EQ(code, 3);
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "two", "last"}));
  EXPECT_EQ(run_child({"sh", "-c", "kill -9 $$"}, [](std::string_view) {}), 128 + SIGKILL);
}

TEST(Child, a_program_that_is_not_there_is_named) {
  try {
    run_child({"no-such-program-here"}, [](std::string_view) {});
    ADD_FAILURE();
  } catch (const base::Error& error) {
    EXPECT_NE(std::string(error.what()).find("no-such-program-here"), std::string::npos);
  }
}

}  // namespace
}  // namespace hyperion::bench
