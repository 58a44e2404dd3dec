#include "hyperion/analysis/analysis.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "hyperion/analysis/analysis_tables.h"
#include "tests/base/support_child.h"
#include "tests/trace/support_traces.h"

namespace hyperion::analysis {
namespace {

using base::test::error_of;
using trace::test::SmallTrace;

// Two steps of `count` kernels "slow" of so many microseconds, one of communication beside them.
RankAnalysis recorded(int64_t slow_us, int64_t rank = 0, int count = 10) {
  SmallTrace small;
  small.facts().rank = rank;
  small.facts().path = "rank-" + std::to_string(rank);
  int64_t now = 0;
  for (int step = 0; step < 3; ++step) {
    const int64_t begin = now;
    for (int i = 0; i < count; ++i) {
      const int64_t correlation = step * 100 + i + 1;
      small.launch(now, now + 10, correlation);
      small.kernel(i % 2 ? "fast<int>(int)" : "void slow<float>(float*)", now + 1000,
                   now + (i % 2 ? 20 : slow_us) * 1000, 7, correlation);
      now += 200'000;
    }
    small.launch(now - 100'000, now - 99'000, step * 100 + 99);
    small.kernel("ncclDevKernel_AllReduce", now - 100'000, now - 40'000, 9, step * 100 + 99);
    small.op("aten::mm", begin, now, step + 1);
    small.step(step, begin, now);
  }
  const auto trace = small.take();
  return analyze(trace);
}

TEST(Analysis, ranks_stand_in_order_and_only_once) {
  std::vector<RankAnalysis> ranks = {recorded(100, 2), recorded(100, 0), recorded(100, 1)};
  order_by_rank(ranks);
  EXPECT_EQ(ranks[0].path, "rank-0");
  EXPECT_EQ(ranks[2].rank, 2);
  ranks.push_back(recorded(100, 1));
  EXPECT_NE(error_of([&] { order_by_rank(ranks); }).find("are both of rank 1"), std::string::npos);
}

TEST(Analysis, json_has_microseconds_and_no_more_rows_than_asked_for) {
  const auto json = analysis_json({recorded(100)}, 1)["ranks"][0];
  EXPECT_EQ(json["steps"], 2);
  EXPECT_EQ(json["left_out"], 11);
  EXPECT_EQ(json["times"]["communication_us"], 120.0);
  EXPECT_EQ(json["times"]["overlap_percent"], 0.0);
  ASSERT_EQ(json["kernels"].size(), 1U);
  EXPECT_EQ(json["kernels"][0]["name"], "void slow<float>(float*)");
  EXPECT_EQ(json["kernels"][0]["sum_us"], 990.0);
  EXPECT_EQ(json["operators"][0]["count"], 3);
}

TEST(Analysis, tables_of_several_ranks_add_up) {
  const auto one = analysis_tables({recorded(100)}, 10);
  const auto two = analysis_tables({recorded(100, 0), recorded(100, 1)}, 10);
  ASSERT_EQ(one.size(), 5U);
  ASSERT_EQ(two.size(), 5U);
  EXPECT_EQ(two[0].rows.size(), 3U);
  EXPECT_NE(two[0].note.find("22 kernels"), std::string::npos);
  EXPECT_EQ(one[3].rows[1][0], "slow");
  EXPECT_EQ(one[3].rows[1][3], "0.990");
  EXPECT_EQ(two[3].rows[1][3], "1.980");
  EXPECT_EQ(two[3].rows[1][5], one[3].rows[1][5]);  // the mean
  EXPECT_EQ(two[3].rows[1][8], "0.00");
  const auto short_one = analysis_tables({recorded(100)}, 1);
  EXPECT_EQ(short_one[3].rows[2][0], "2 others");
}

TEST(Analysis, of_a_trace_without_a_device_has_operators_alone) {
  SmallTrace small;
  small.op("aten::mm", 0, 100);
  const auto trace = small.take();
  const auto tables = analysis_tables({analyze(trace)}, 10);
  ASSERT_EQ(tables.size(), 1U);
  EXPECT_EQ(tables[0].rows[1][0], "aten::mm");
  EXPECT_TRUE(analysis_tables({analyze(trace::Trace())}, 10).empty());
}

TEST(TraceDiff, names_the_slower_kernel_first) {
  const auto found = diff({recorded(100)}, {recorded(110)});
  EXPECT_TRUE(found.regression);
  EXPECT_EQ(found.kernels[0].name, "void slow<float>(float*)");
  EXPECT_TRUE(found.kernels[0].regression);
  EXPECT_NEAR(found.kernels[0].before, 5 * 99, 1e-9);
  EXPECT_NEAR(found.kernels[0].after, 5 * 109, 1e-9);
  EXPECT_FALSE(found.kernels[1].regression);
}

TEST(TraceDiff, of_equal_or_faster_recordings_is_no_regression) {
  EXPECT_FALSE(diff({recorded(100)}, {recorded(100)}).regression);
  EXPECT_FALSE(diff({recorded(100)}, {recorded(90)}).regression);
  EXPECT_FALSE(diff({recorded(100)}, {recorded(104)}).regression);
  EXPECT_TRUE(diff({recorded(100)}, {recorded(104)}, {.percent = 3}).regression);
  EXPECT_FALSE(diff({recorded(100)}, {recorded(110)}, {.percent = 5, .share = 50}).regression);
  EXPECT_FALSE(diff({recorded(100)}, {recorded(100, 0), recorded(100, 1)}).regression);  // of a rank, not of all
}

TEST(TraceSummary, counts_categories_and_lists_the_longest) {
  SmallTrace small;
  for (int i = 0; i < 50; ++i) small.kernel("k" + std::to_string(i), i, i + (i * 7) % 50);
  small.op("aten::mm", 5, 10'000);
  const auto trace = small.take();
  const auto all = summarize(trace, {.longest = 3});
  EXPECT_EQ(all.matching, 51);
  EXPECT_EQ(all.begin, 0);
  EXPECT_EQ(all.end, 10'000);
  ASSERT_EQ(all.longest.size(), 3U);
  EXPECT_EQ(trace.name_text(all.longest[0]), "aten::mm");
  EXPECT_EQ(trace.duration[all.longest[1]], 49);
  EXPECT_EQ(trace.duration[all.longest[2]], 48);
  ASSERT_EQ(all.categories.size(), 2U);
  EXPECT_EQ(all.categories[0].category, trace::Category::kernel);
  EXPECT_EQ(all.categories[0].count, 50);
  const auto some = summarize(trace, {.longest = 100, .name = "k1", .category = "kernel"});
  EXPECT_EQ(some.matching, 11);
  EXPECT_EQ(some.longest.size(), 11U);
  EXPECT_NE(error_of([&] { summarize(trace, {.category = "kernl"}); }).find("it has kernel, cpu_op"),
            std::string::npos);
  EXPECT_EQ(summary_json(trace, all)["longest"][0]["duration_us"], 9.995);
  EXPECT_EQ(summary_tables(trace, all)[1].rows.size(), 4U);
}

TEST(ShortName, drops_templates_and_parameters) {
  EXPECT_EQ(short_name("void at::native::gelu<float, std::array<char*, 2ul> >(float*, int)"), "at::native::gelu");
  EXPECT_EQ(short_name("void at::native::(anonymous namespace)::norm<float>(int)"), "at::native::norm");
  EXPECT_EQ(short_name("Memcpy DtoD (Device -> Device)"), "Memcpy DtoD (Device -> Device)");
  EXPECT_EQ(short_name("a->b(x)"), "a->b");
  EXPECT_EQ(short_name("torch::autograd::CppNode<hyperion::kernels::(anonymous namespace)::CrossEntropy>"),
            "hyperion::kernels::CrossEntropy backward");
  EXPECT_EQ(short_name("<lambda>"), "<lambda>");
  EXPECT_EQ(short_name("x\x1b[31m"), "x\\x1b[31m");
  EXPECT_EQ(short_name(std::string(100, 'y'), 10), "yyyyyyy...");
  EXPECT_EQ(short_name("yyyyy\xc3\xa9\xc3\xa9zzz", 9), "yyyyy...");
  EXPECT_EQ(short_name(""), "");
}

}  // namespace
}  // namespace hyperion::analysis
