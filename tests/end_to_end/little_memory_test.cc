// Memory that runs out under a limit of the shell: told in our own words.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::says;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

constexpr const char* kLimit = "700000";  // KiB of addresses: LibTorch for a CPU takes half of it

Finished run_within(const Scratch& scratch, Words words, const std::string& limit = kLimit) {
  words.insert(words.begin(), {"-c", "ulimit -v " + limit + "; exec \"$@\"", "sh", testing::program()});
  return testing::run(scratch, words, {{"HYPERION_TEST_PROGRAM", "/bin/sh"}});
}

TEST(LittleMemory, is_told_with_what_was_done_and_asked_for_and_nothing_of_the_library) {
  Scratch scratch;
  if (run_within(scratch, {"--version"}).code != 0) GTEST_SKIP() << "the program alone takes more than " << kLimit;
  testing::write_file(scratch.path() / "wide.toml",
                      "[train]\nsteps = 1\nbatch = 1\nlength = 16\n[model]\nlayers = 12\nheads = 2\nwidth = 2048\n"
                      "context = 16\n[optim]\nwarmup = 0\n[eval]\nbatches = 1\n");
  const Finished done =
      run_within(scratch, {"train", (scratch.path() / "wide.toml").string(), "--run", "r", "--device", "cpu"});
  EXPECT_EQ(done.code, 1) << done.err;
  EXPECT_TRUE(says(done.err, "error: memory ran out while preparing the run, asking for ")) << done.err;
  EXPECT_TRUE(says(done.err, "hint: use a smaller batch")) << done.err;
  const std::string failure =
      nlohmann::json::parse(testing::read_file(scratch.runs() / "r/run.json"))["failure"].get<std::string>();
  EXPECT_TRUE(says(failure, "memory ran out")) << failure;
  for (const char* foreign : {"Allocator", "alloc_cpu", "frame #", "enforce fail"})
    EXPECT_FALSE(says(done.err + failure, foreign)) << done.err << failure;
}

TEST(LittleMemory, for_the_libraries_to_start_is_told_too) {
  Scratch scratch;
  int too_little = 100'000, enough = std::atoi(kLimit);  // KiB
  if (run_within(scratch, {"--version"}).code != 0) GTEST_SKIP() << "the program alone takes more than " << kLimit;
  bool told = false;
  while (enough - too_little > 2000) {
    const int limit = (too_little + enough) / 2;
    const Finished done = run_within(scratch, {"--version"}, std::to_string(limit));
    EXPECT_LT(done.code, 128) << limit << ": " << done.err;
    EXPECT_FALSE(says(done.err, "terminate called")) << limit << ": " << done.err;
    told = told || (done.code == 1 && says(done.err, "error: memory ran out while starting\nhint: "));
    (done.code == 0 ? enough : too_little) = limit;
  }
  EXPECT_TRUE(told);
}

TEST(LittleMemory, after_the_last_step_is_not_called_preparing) {
  Scratch scratch;
  const Finished done = testing::run(
      scratch, Words{"train", testing::tiny_recipe(scratch).string(), "--run", "r"} + testing::device_flags(),
      {{"HYPERION_FAULTS", "train.answer=memory"}});
  EXPECT_EQ(done.code, 1) << done.err;
  EXPECT_TRUE(says(done.err, "error: memory ran out while finishing the run, after its last step")) << done.err;
}

}  // namespace
}  // namespace hyperion
