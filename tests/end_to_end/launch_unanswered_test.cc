// A machine that ssh does not reach is not waited for once the job is to stop.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::Program;
using testing::Scratch;

TEST(LaunchUnanswered, the_first_sigterm_gives_a_silent_node_up) {
  Scratch scratch;
  testing::write_file(scratch.path() / "silent", "#!/bin/sh\necho the shell waits >&2\nexec sleep 100\n");
  std::filesystem::permissions(scratch.path() / "silent", std::filesystem::perms(0755));
  Program job(scratch, {"launch", "--nodes", "far:2", "--listen", "127.0.0.1", "--logs", "logs", "--ssh",
                        (scratch.path() / "silent").string(), "--", "train", "x.toml"});
  ASSERT_TRUE(job.wait_for_text("the shell waits"));
  job.signal(SIGTERM);
  ASSERT_TRUE(job.ends_within(30)) << "it would wait two minutes for an answer";
  const auto done = job.wait();
  EXPECT_EQ(done.code, 75) << "training that has lost no step: " << done.err;
  EXPECT_NE(done.err.find("launch: node far has not answered yet, and is given up"), std::string::npos) << done.err;
}

}  // namespace
}  // namespace hyperion
