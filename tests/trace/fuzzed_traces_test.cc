// The short run; script/fuzz-traces is the long one.
#include <gtest/gtest.h>

#include "tests/fuzz/trace_inputs.h"
#include "tests/support/seed.h"

namespace hyperion::testing {
namespace {

TEST(FuzzedTraces, are_read_or_refused_within_their_memory) {
  std::mt19937 random(static_cast<unsigned>(seed()));
  const base::test::TestFolder folder;
  const auto json = good_traces_in_json();
  std::vector<std::string> own;
  try {
    own = good_own_traces();
  } catch (const base::ConfigError&) {
    GTEST_SKIP() << "a build without libzstd";
  }
  int read[2] = {}, refused[2] = {};
  for (int i = 0; i < 1500; ++i) {
    const bool ours = i % 2 == 1;
    const auto& good = ours ? own[random() % own.size()] : json[random() % json.size()];
    const auto file = ours ? broken_own_trace(good, random) : mutated(good, good.size(), trace_words(), random);
    const size_t peak = peak_allocated([&] { (reads_trace(folder.path(), file, random) ? read : refused)[ours] += 1; });
    ASSERT_LE(peak, file.size() + kMostReaderBytes) << "seed " << seed() << ", " << i;
  }
  for (const int ours : {0, 1}) {
    EXPECT_GT(read[ours], 10) << ours;
    EXPECT_GT(refused[ours], 100) << ours;
  }
}

}  // namespace
}  // namespace hyperion::testing
