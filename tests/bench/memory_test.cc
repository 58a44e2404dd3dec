#include "hyperion/bench/memory.h"

#include <gtest/gtest.h>

namespace hyperion::bench {
namespace {

TEST(MemoryBench, small_sizes_are_shown_in_their_own_unit) {
  MemoryResult result{"tiny", "CPU", {}};
  result.rows.emplace_back();
  result.rows[0].precision = "fp32";
  result.rows[0].report.weights = 3000, result.rows[0].report.gradients = 700;
  result.rows[0].report.activations = int64_t{5} << 30;
  const auto table = memory_bench_table(result);
  for (const char* text : {"| 2.9 KiB |", "| 700 B |", "| 5.0 GiB |"})
    EXPECT_NE(table.find(text), std::string::npos) << table;
}

}  // namespace
}  // namespace hyperion::bench
