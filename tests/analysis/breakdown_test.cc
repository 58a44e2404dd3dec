#include "hyperion/analysis/breakdown.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "hyperion/analysis/intervals.h"
#include "tests/trace/support_traces.h"

namespace hyperion::analysis {
namespace {

using trace::test::SmallTrace;

TEST(Intervals, unions_and_their_overlaps_are_those_of_single_ticks) {
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    std::array<Intervals, 3> unions;
    std::array<std::array<bool, 60>, 3> runs = {};
    for (size_t k = 0; k < 3; ++k) {
      Intervals some;
      for (unsigned i = 0; i < random() % 12; ++i) {
        const int64_t begin = random() % 50;
        some.push_back({begin, begin + static_cast<int64_t>(random() % 9)});
      }
      std::sort(some.begin(), some.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
      for (const auto& interval : some) {
        add_interval(unions[k], interval);
        for (int64_t t = interval.begin; t < interval.end; ++t) runs[k][static_cast<size_t>(t)] = true;
      }
    }
    std::array<int64_t, 8> expected = {};
    int64_t first = 0;
    for (size_t t = 0; t < 60; ++t) {
      const size_t mask = (runs[0][t] ? 1 : 0) + (runs[1][t] ? 2 : 0) + (runs[2][t] ? 4 : 0);
      if (mask > 0) ++expected[mask];
      first += runs[0][t];
    }
    EXPECT_EQ(time_by_mask(unions), expected);
    EXPECT_EQ(length_of(unions[0]), first);
    EXPECT_EQ(overlap_of(unions[0], unions[1]), expected[3] + expected[7]);
  }
}

TEST(WorkKind, is_told_from_the_name_as_hta_tells_it) {
  EXPECT_EQ(work_kind("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)"), WorkKind::communication);
  EXPECT_EQ(work_kind("ncclKernel_SendRecv"), WorkKind::communication);
  EXPECT_EQ(work_kind("ncclSomething"), WorkKind::computation);
  EXPECT_EQ(work_kind("my_ncclDevKernel"), WorkKind::computation);
  EXPECT_EQ(work_kind("Memcpy DtoH (Device -> Pageable)"), WorkKind::memory);
  EXPECT_EQ(work_kind("Memset (Device)"), WorkKind::memory);
  EXPECT_EQ(work_kind("dma_copy"), WorkKind::memory);
  EXPECT_EQ(work_kind("batchedMemcpyKernel"), WorkKind::other);
  EXPECT_EQ(work_kind("Stream Sync"), WorkKind::other);
  EXPECT_EQ(work_kind("setMemset"), WorkKind::computation);
  EXPECT_EQ(work_kind("gemm"), WorkKind::computation);
}

const char* const kNames[] = {"gemm", "ncclDevKernel_AllReduce", "Memcpy DtoD", "has Sync in it"};

TEST(TimeBreakdown, is_that_of_single_ticks) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    SmallTrace small;
    std::array<unsigned, 80> runs = {};
    int64_t first = 80, last = 0;
    for (unsigned i = 0; i < 1 + random() % 20; ++i) {
      const auto kind = random() % 4;
      const int64_t begin = random() % 60, end = begin + 1 + random() % 15;
      small.kernel(kNames[kind], begin, end, static_cast<int64_t>(random() % 3));
      for (int64_t t = begin; t < end; ++t) runs[static_cast<size_t>(t)] |= 1u << kind;
      first = std::min(first, begin), last = std::max(last, end);
    }
    TimeBreakdown expected;
    for (int64_t t = first; t < last; ++t) {
      const auto mask = runs[static_cast<size_t>(t)];
      ++(mask == 0 ? expected.idle : mask & 1 ? expected.compute : expected.non_compute);
      expected.communication += (mask >> 1) & 1;
      expected.overlapped += (mask & 3) == 3;
    }
    const auto trace = small.take();
    const auto times = time_breakdown(device_work(trace));
    EXPECT_EQ(times.total, last - first);
    EXPECT_EQ(times.idle, expected.idle);
    EXPECT_EQ(times.compute, expected.compute);
    EXPECT_EQ(times.non_compute, expected.non_compute);
    EXPECT_EQ(times.communication, expected.communication);
    EXPECT_EQ(times.overlapped, expected.overlapped);
  }
}

TEST(TimeBreakdown, of_nothing_is_nothing) {
  const trace::Trace trace;
  const auto times = time_breakdown(device_work(trace));
  EXPECT_EQ(times.total, 0);
  EXPECT_FALSE(times.overlap_percent().has_value());
}

std::vector<int64_t> launch_times(const DeviceWork& work) {
  std::vector<int64_t> times;
  for (const auto& span : work.spans) times.push_back(span.launched);
  return times;
}

TEST(DeviceWork, leaves_out_what_the_last_step_launched) {
  SmallTrace small;
  small.step(1, 0, 100);
  small.step(2, 100, 200);
  small.step(3, 200, 300);
  small.launch(10, 12, 1), small.kernel("a", 20, 30, 7, 1);
  small.launch(190, 195, 3), small.kernel("c", 250, 260, 7, 3);  // launched by the second, ran in the third
  small.launch(150, 155, 2), small.kernel("b", 160, 170, 7, 2);
  small.launch(200, 205, 4), small.kernel("d", 210, 220, 7, 4);
  small.kernel("e", 60, 70, 7, 99);  // its launch was not recorded
  const auto trace = small.take();
  const auto work = device_work(trace);
  EXPECT_EQ(work.steps, 2);
  EXPECT_EQ(work.left_out, 2);
  ASSERT_EQ(work.spans.size(), 3U);
  EXPECT_EQ(trace.name_text(work.spans[2].event), "c");
  EXPECT_EQ(launch_times(work), (std::vector<int64_t>{10, 150, 190}));
  const auto with_last = device_work(trace, {.include_last = true});
  EXPECT_EQ(with_last.steps, 3);
  EXPECT_EQ(with_last.spans.size(), 4U);
}

TEST(DeviceWork, of_one_step_or_none_is_all) {
  SmallTrace small;
  small.step(1, 0, 100);
  small.kernel("a", 20, 30, 7, 1);
  small.kernel("b", 120, 130);
  const auto trace = small.take();
  EXPECT_EQ(device_work(trace).spans.size(), 2U);
  EXPECT_EQ(launch_times(device_work(trace)), (std::vector<int64_t>{trace::kNoTime, trace::kNoTime}));
}

TEST(DeviceWork, many_kernels_of_one_launch_have_its_time) {
  SmallTrace small;
  std::mt19937 random(2);
  std::map<int64_t, int64_t> launches;
  for (int i = 0; i < 500; ++i) {
    const int64_t correlation = random() % 300, begin = random() % 10000;
    if (random() % 3)
      small.launch(begin, begin + 1, correlation), launches[correlation] = begin;  // the last one counts
    small.kernel("k", begin + 5, begin + 6, 7, static_cast<int64_t>(random() % 300));
  }
  const auto trace = small.take();
  const auto work = device_work(trace);
  ASSERT_EQ(work.spans.size(), 500U);
  for (size_t i = 0; i < work.spans.size(); ++i) {
    const auto found = launches.find(trace.correlation(work.spans[i].event));
    EXPECT_EQ(work.spans[i].launched, found == launches.end() ? trace::kNoTime : found->second);
    EXPECT_GE(work.spans[i].begin, work.spans[i > 0 ? i - 1 : 0].begin);
  }
}

TEST(IdleByCause, tells_late_hosts_from_short_gaps_and_the_rest) {
  SmallTrace small;
  small.kernel("a", 0, 100'000, 7, 1), small.launch(0, 10, 1);
  small.kernel("b", 110'000, 200'000, 7, 2), small.launch(50'000, 50'010, 2);    // 10 us, launched in time
  small.kernel("c", 260'000, 300'000, 7, 3), small.launch(190'000, 190'010, 3);  // 60 us, launched in time
  small.kernel("d", 305'000, 400'000, 7, 4), small.launch(300'001, 300'010, 4);  // 5 us, launched too late
  small.kernel("e", 390'000, 395'000, 7, 5);                                     // within d
  small.kernel("f", 401'000, 402'000, 7, 6);                                     // after d, not after e
  small.kernel("g", 5'000, 6'000, 9, 7);
  const auto trace = small.take();
  const auto rows = idle_by_cause(trace, device_work(trace));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].stream, 7);
  EXPECT_EQ(rows[0].kernel_wait, 11'000);
  EXPECT_EQ(rows[0].other, 60'000);
  EXPECT_EQ(rows[0].host_wait, 5'000);
  EXPECT_EQ(rows[0].gaps, 4);
  EXPECT_EQ(rows[1].idle(), 0);
  EXPECT_EQ(idle_by_cause(trace, device_work(trace), 1000)[0].other, 71'000);
}

TEST(KernelTable, has_sums_and_spread_of_each_name) {
  SmallTrace small;
  for (const int64_t length : {2, 4, 4, 4, 5, 5, 7, 9}) small.kernel("a", 0, length);
  small.kernel("ncclKernel", 0, 100);
  const auto trace = small.take();
  const auto rows = kernel_table(trace, device_work(trace));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].name, "ncclKernel");
  EXPECT_EQ(rows[0].kind, WorkKind::communication);
  EXPECT_EQ(rows[0].deviation, 0);
  EXPECT_EQ(rows[1].count, 8);
  EXPECT_EQ(rows[1].sum, 40);
  EXPECT_EQ(rows[1].longest, 9);
  EXPECT_EQ(rows[1].shortest, 2);
  EXPECT_EQ(rows[1].mean, 5);
  EXPECT_NEAR(rows[1].deviation, 2.13809, 1e-5);
}

}  // namespace
}  // namespace hyperion::analysis
