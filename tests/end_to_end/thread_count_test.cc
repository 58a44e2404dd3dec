// OMP_NUM_THREADS as people set it.
#include <gtest/gtest.h>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::run;
using testing::says;

TEST(ThreadCount, in_words_is_told_to_be_ignored) {
  const testing::Scratch scratch;
  const auto words = run(scratch, {"config", "show"}, {{"OMP_NUM_THREADS", "all"}});
  EXPECT_EQ(words.code, 0);
  EXPECT_TRUE(says(words.err, "OMP_NUM_THREADS=\"all\" is no number of threads, and is ignored")) << words.err;
  for (const char* good : {"", "2", "4,2"})
    EXPECT_FALSE(says(run(scratch, {"config", "show"}, {{"OMP_NUM_THREADS", good}}).err, "is no number")) << good;
}

TEST(ThreadCount, beyond_reason_is_refused_before_openmp_fails) {
  const testing::Scratch scratch;
  const auto done = run(scratch, {"config", "show"}, {{"OMP_NUM_THREADS", "99999999"}});
  EXPECT_EQ(done.code, 2);
  EXPECT_TRUE(says(done.err, "error: OMP_NUM_THREADS=99999999 is more than 4096 threads")) << done.err;
}

}  // namespace
}  // namespace hyperion
