// `profile RUN`: the next steps of a run that is being trained, traced on request.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
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

Words long_run(const Scratch& scratch, const std::string& name) {
  return {"train", testing::tiny_recipe(scratch).string(), "--run", name, "--device", "cpu", "--steps", "100000"};
}

std::set<std::string> traces_of(const Scratch& scratch, const std::string& name) {
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(scratch.runs() / name / "traces"))
    files.insert(entry.path().filename());
  return files;
}

TEST(Profile, traces_a_run_while_it_goes_on) {
  const Scratch scratch;
  testing::Program training(scratch, Words{"launch", "-n", "2", "--"} + long_run(scratch, "long"));
  ASSERT_TRUE(training.wait_for_text("step 10/"));
  for (const std::string ranks : {"all", "1"}) {
    const Finished done = run(scratch, {"profile", "long", "--steps", "2", "--ranks", ranks});
    ASSERT_EQ(done.code, 0) << done.err;
    EXPECT_EQ(std::count(done.out.begin(), done.out.end(), '\n'), ranks == "all" ? 2 : 1) << done.out;
    EXPECT_TRUE(says(done.out, "rank-1.htrace")) << done.out;
    const Finished analyzed = run(scratch, {"trace", "analyze", "long", "--json"});
    EXPECT_EQ(analyzed.code, 0) << analyzed.err;
  }
  const auto files = traces_of(scratch, "long");
  EXPECT_EQ(files.size(), 3u);
  training.signal(SIGTERM);
  EXPECT_EQ(training.wait().code, 75);
  EXPECT_EQ(traces_of(scratch, "long"), files);

  const Finished late = run(scratch, {"profile", "long"});
  EXPECT_EQ(late.code, 2);
  EXPECT_TRUE(says(late.err, "is not being trained")) << late.err;
  EXPECT_EQ(run(scratch, {"profile", "nobody"}).code, 2);
  for (const char* ranks : {"", "1,", "-1", "63", "one"}) {
    const Finished wrong = run(scratch, {"profile", "long", std::string("--ranks=") + ranks});
    EXPECT_EQ(wrong.code, 2) << ranks;
  }
}

// The run's own plan goes first; what is asked for meanwhile comes behind it.
TEST(Profile, comes_after_what_a_run_traces_by_itself) {
  const Scratch scratch;
  testing::Program training(scratch, long_run(scratch, "planned") + Words{"--profile", "1+60@5"});
  ASSERT_TRUE(training.wait_for_text("step 10/"));
  const Finished none = run(scratch, {"profile", "planned", "--ranks", "1"});
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(says(none.err, "there is no rank 1 among 1 process")) << none.err;
  for (int request = 0; request < 2; ++request) {
    const Finished done = run(scratch, {"profile", "planned", "--steps", "2"});
    ASSERT_EQ(done.code, 0) << done.err;
    EXPECT_FALSE(says(done.out, "step-6.rank-0")) << done.out;
  }
  training.signal(SIGTERM);
  EXPECT_EQ(training.wait().code, 75);
  EXPECT_EQ(traces_of(scratch, "planned").size(), 3u);
}

}  // namespace
}  // namespace hyperion
