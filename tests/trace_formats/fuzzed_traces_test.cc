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
  const auto packets = good_perfetto_traces();
  const auto any_of = [&](const std::vector<std::string>& files) { return files[random() % files.size()]; };
  int read[3] = {}, refused[3] = {};
  for (int i = 0; i < 2250; ++i) {
    const int kind = i % 3;
    const auto good = any_of(kind == 0 ? json : kind == 1 ? own : packets);
    const auto file = kind == 0   ? mutated(good, good.size(), trace_words(), random)
                      : kind == 1 ? broken_own_trace(good, random)
                                  : broken_perfetto_trace(good, random);
    const size_t peak = peak_allocated([&] { (reads_trace(folder.path(), file, random) ? read : refused)[kind] += 1; });
    ASSERT_LE(peak, file.size() + kMostReaderBytes) << "seed " << seed() << ", " << i;
  }
  for (const int kind : {0, 1, 2}) {
    EXPECT_GT(read[kind], 10) << kind;
    EXPECT_GT(refused[kind], 100) << kind;
  }
}

}  // namespace
}  // namespace hyperion::testing
