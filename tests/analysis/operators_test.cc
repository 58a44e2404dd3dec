#include "hyperion/analysis/operators.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "tests/trace/support_traces.h"

namespace hyperion::analysis {
namespace {

using trace::test::SmallTrace;

TEST(OperatorTable, self_times_are_those_of_single_ticks) {
  std::mt19937 random(9);
  for (int round = 0; round < 100; ++round) {
    SmallTrace small;
    std::map<std::string, std::array<int64_t, 3>> expected;  // count, self, total
    for (const std::string thread : {"1", "2"}) {
      std::array<std::string, 200> innermost;
      const std::function<void(int64_t, int64_t, int)> fill = [&](int64_t begin, int64_t end, int depth) {
        while (begin < end) {
          const int64_t from = begin + random() % 5, to = std::min<int64_t>(end, from + 1 + random() % 40);
          begin = to;
          if (from >= to) continue;
          const auto name = "op" + std::to_string(random() % 4);
          ++expected[name][0];
          expected[name][2] += to - from;
          for (int64_t t = from; t < to; ++t) innermost[static_cast<size_t>(t)] = name;
          small.op(name, from, to, trace::kNone, thread);
          if (depth < 4) fill(from, to, depth + 1);
        }
      };
      fill(0, 200, 0);
      for (const auto& name : innermost)
        if (!name.empty()) ++expected[name][1];
    }
    const auto trace = small.take();
    const auto rows = operator_table(trace);
    ASSERT_EQ(rows.size(), expected.size());
    for (const auto& row : rows) {
      EXPECT_EQ(row.count, expected[row.name][0]);
      EXPECT_EQ(row.self, expected[row.name][1]);
      EXPECT_EQ(row.total, expected[row.name][2]);
    }
    for (size_t i = 1; i < rows.size(); ++i) EXPECT_GE(rows[i - 1].self, rows[i].self);
  }
}

TEST(OperatorTable, work_on_the_device_counts_to_the_operator_that_launched_it) {
  SmallTrace small;
  small.op("outer", 0, 100, 5);
  small.op("inner", 10, 50, 4);
  small.kernel("k", 60, 90, 7, 1, "kernel", 4);
  small.kernel("Memcpy DtoD", 90, 95, 7, 2, "gpu_memcpy", 4);
  small.kernel("k", 100, 107, 7, 3, "kernel", 5);
  small.kernel("k", 200, 300, 7, 3, "kernel", 77);  // nobody's
  const auto trace = small.take();
  const auto rows = operator_table(trace);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].name, "outer");
  EXPECT_EQ(rows[0].self, 60);
  EXPECT_EQ(rows[0].device, 7);
  EXPECT_EQ(rows[1].device, 35);
}

}  // namespace
}  // namespace hyperion::analysis
