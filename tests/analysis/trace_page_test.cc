#include "hyperion/command/trace_page.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "hyperion/analysis/findings.h"
#include "hyperion/analysis/rank_time.h"
#include "hyperion/analysis/step_lanes.h"
#include "hyperion/analysis/waits.h"
#include "tests/analysis/support_job.h"

namespace hyperion::analysis {
namespace {

using test::Delay;
using test::MadeJob;

std::string page_of(std::vector<trace::Trace> traces, size_t top = 20) {
  cli::AnalyzedTraces found;
  for (auto& trace : traces) {
    found.ranks.push_back(analyze(trace));
    found.communication.push_back(communication_of(trace));
    cli::add_for_page(found, std::move(trace));
  }
  return cli::trace_page(found, job_communication(found.communication), top);
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

size_t times_said(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

// The first tag that does not close, or closes what is not open; empty: all is well.
std::string unbalanced(const std::string& html) {
  std::vector<std::string> open;
  for (size_t at = html.find('<'); at != html.npos; at = html.find('<', at)) {
    const size_t end = html.find('>', at);
    if (end == html.npos) return html.substr(at, 40);
    const auto tag = html.substr(at + 1, end - at - 1);
    at = end;
    if (tag.back() == '/' || tag[0] == '!') continue;
    const auto name = tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" \n") - (tag[0] == '/' ? 1 : 0));
    if (name == "meta" || name == "br" || name == "img") continue;
    if (tag[0] != '/') {
      open.push_back(name);
    } else {
      if (open.empty() || open.back() != name) return tag;
      open.pop_back();
    }
  }
  return open.empty() ? "" : open.back();
}

// What a number of ranks did in their steps, on clocks that are apart.
std::vector<trace::Trace> job_traces(int ranks, int steps = 3) {
  MadeJob made{.ranks = ranks, .steps = steps, .delay = Delay::kernel, .delayed_rank = ranks - 1};
  made.delay_time = 2'000'000;
  for (int rank = 0; rank < ranks; ++rank) made.clocks.push_back(int64_t{7'000'000} * rank);
  return std::move(test::made_traces(made).traces);
}

Job job_of_traces(std::vector<trace::Trace> traces) {
  std::vector<Timeline> ranks;
  for (auto& trace : traces) ranks.push_back(timeline_of(std::move(trace)));
  return make_job(std::move(ranks));
}

TEST(TracePage, is_whole_and_has_a_part_for_each_rank) {
  const auto page = page_of(job_traces(3));
  EXPECT_EQ(unbalanced(page), "");
  for (const char* id : {"first", "time", "lanes", "path", "tables", "rank-0", "rank-1", "rank-2"}) {
    EXPECT_EQ(times_said(page, base::format("<section id=\"{}\"", id)), 1u) << id;
    EXPECT_EQ(times_said(page, base::format("href=\"#{}\"", id)), 1u) << id;
  }
  for (const char* part : {"gemm_3_1", "ncclDevKernel_AllReduce", "clocks, from their collectives",
                           "communication by group", "a step without it", "Rank 2 is waited for"})
    EXPECT_TRUE(says(page, part)) << part;
  EXPECT_FALSE(says(page, "id=\"memory\""));
  EXPECT_FALSE(says(page, "<script"));
}

TEST(TracePage, needs_nothing_from_elsewhere) {
  auto page = page_of(job_traces(2));
  page = std::regex_replace(page, std::regex("xmlns=\"[^\"]*\"|href=\"#[^\"]*\""), "");
  for (const char* outside : {"http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link"})
    EXPECT_FALSE(says(page, outside)) << outside;
}

TEST(TracePage, escapes_what_traces_say) {
  const std::string hostile = "<script>alert(\"x\")</script> & 'y'";
  trace::test::SmallTrace made;
  made.facts().path = hostile;
  made.step(1, 0, 1'000'000);
  made.step(2, 1'000'000, 2'000'000);
  for (int i = 0; i < 2; ++i) {
    made.op("aten::" + hostile, 1'000'000 * i + 1'000, 1'000'000 * i + 300'000);
    made.launch(1'000'000 * i + 100'000, 1'000'000 * i + 110'000, i + 1);
    made.kernel("Memset " + hostile, 1'000'000 * i + 200'000, 1'000'000 * i + 600'000, 7, i + 1);
  }
  std::vector<trace::Trace> traces;
  traces.push_back(made.take());
  const auto page = page_of(std::move(traces));
  EXPECT_EQ(unbalanced(page), "");
  EXPECT_FALSE(says(page, "<script"));
  EXPECT_TRUE(says(page, "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; &amp; &#39;y&#39;"));
}

TEST(TracePage, draws_memory_where_it_was_recorded) {
  trace::TraceBuilder builder;
  builder.add({.category = "cpu_op", .name = "aten::empty", .begin = 0, .duration = 100});
  for (int i = 0; i < 50; ++i)
    builder.add({.phase = 'i',
                 .category = "cpu_instant_event",
                 .name = "[memory]",
                 .begin = int64_t{1000} * i,
                 .members = base::format(R"("args": {{"Total Reserved": 0, "Total Allocated": {}, "Bytes": 1048576,)"
                                         R"( "Addr": {}, "Device Id": -1, "Device Type": 0}})",
                                         (i + 1) << 20, i)});
  std::vector<trace::Trace> traces;
  traces.push_back(std::move(builder).take());
  const auto page = page_of(std::move(traces));
  EXPECT_EQ(unbalanced(page), "");
  EXPECT_TRUE(says(page, "<section id=\"memory\""));
  EXPECT_TRUE(says(page, "50.0 MiB"));
  EXPECT_TRUE(says(page, "No rank has kernels"));
}

TEST(TracePage, of_a_trace_without_anything_is_still_a_page) {
  std::vector<trace::Trace> traces;
  traces.push_back(trace::test::SmallTrace().take());
  const auto page = page_of(std::move(traces));
  EXPECT_EQ(unbalanced(page), "");
  EXPECT_TRUE(says(page, "</html>"));
}

// By what the parts of each say of themselves, rounded.
TEST(TracePage, bars_of_a_rank_add_up_to_all_of_it) {
  const auto page = page_of(job_traces(2));
  const auto from = page.find("<section id=\"time\""), to = page.find("</svg>", from);
  const auto picture = page.substr(from, to - from);
  const std::regex told("<title>rank ([0-9]), [^<]*ms, ([0-9.]+)%</title>");
  std::map<std::string, double> percents;
  for (std::sregex_iterator at(picture.begin(), picture.end(), told), end; at != end; ++at)
    percents[(*at)[1]] += std::stod((*at)[2]);
  ASSERT_EQ(percents.size(), 2u);
  for (const auto& [rank, percent] : percents) EXPECT_NEAR(percent, 100, 0.3) << rank;
}

TEST(TracePage, has_a_lane_for_each_thread_and_stream_of_each_rank) {
  const auto page = page_of(job_traces(4));
  const auto from = page.find("<section id=\"lanes\""), to = page.find("</svg>", from);
  const auto picture = page.substr(from, to - from);
  for (int rank = 0; rank < 4; ++rank)
    for (const char* lane : {"thread 70", "stream 7", "stream 20"})
      EXPECT_EQ(times_said(picture, base::format(">rank {}, {}<", rank, lane)), 1u) << rank << lane;
  EXPECT_EQ(times_said(picture, ">rank "), 12u);
}

// Kernels of 1 to 5 us on four streams, and their launches: 200,000 events in one step.
TEST(TracePage, stays_small_for_many_events) {
  std::mt19937 random(3);
  std::vector<trace::Trace> traces;
  for (int rank = 0; rank < 2; ++rank) {
    trace::test::SmallTrace made;
    made.facts().rank = rank;
    for (int64_t i = 0; i < 50'000; ++i) {
      const int64_t begin = 2'000 * i, length = 1'000 + static_cast<int64_t>(random() % 4'000);
      made.launch(begin, begin + 500, i);
      made.kernel(base::format("void kernel_number_{}_with_a_long_name<float>(float*)", random() % 200), begin + 1'000,
                  begin + 1'000 + length, static_cast<int64_t>(random() % 4), i);
    }
    traces.push_back(made.take());
  }
  const auto page = page_of(std::move(traces));
  EXPECT_EQ(unbalanced(page), "");
  EXPECT_LT(page.size(), 2u << 20);
  EXPECT_GT(times_said(page, "<rect"), 1'000u);
}

TEST(Findings, name_the_slow_rank_its_kernel_and_what_it_costs) {
  cli::AnalyzedTraces found;
  std::vector<Timeline> timelines;
  std::vector<RankTime> times;
  for (auto& trace : job_traces(3)) {
    found.ranks.push_back(analyze(trace));
    found.communication.push_back(communication_of(trace));
    times.push_back(rank_time(found.ranks.back()));
    timelines.push_back(timeline_of(std::move(trace)));
    find_waits(timelines.back());
  }
  const auto job = make_job(std::move(timelines));
  const JobGraph graph(job);
  const auto report = path_report(graph, usual_what_ifs(job));
  const auto all = findings(found.ranks, times, job_communication(found.communication), &job, &report);
  ASSERT_GE(all.size(), 3u);
  for (size_t i = 1; i < all.size(); ++i) EXPECT_GE(all[i - 1].percent, all[i].percent);
  EXPECT_TRUE(says(all[0].text, "communication runs with no computation beside it")) << all[0].text;
  EXPECT_TRUE(says(all[0].text, "(dp)")) << all[0].text;
  std::string text;
  for (const auto& finding : all) text += finding.text + "\n";
  for (const char* part :
       {"Kernel gemm_3_1 takes longest", "Without what rank 2 takes longer than the others", "Rank 2 is waited for"})
    EXPECT_TRUE(says(text, part)) << text;
  EXPECT_EQ(findings(found.ranks, times, job_communication(found.communication), &job, &report, 101).size(), 0u);
}

TEST(RankTime, parts_add_up_to_the_time_on_the_device) {
  for (auto& trace : job_traces(4)) {
    const auto rank = analyze(trace);
    const auto times = rank_time(rank);
    EXPECT_EQ(times.total(), rank.times.total);
    EXPECT_EQ(rank.device_idle.idle(), rank.times.idle);
    double percents = 0;
    for (size_t part = 0; part < kTimeParts; ++part) {
      EXPECT_GE(times.times[part], 0);
      percents += times.percent(static_cast<TimePart>(part));
    }
    EXPECT_NEAR(percents, 100, 1e-9);
    EXPECT_EQ(times.at(TimePart::overlapped) + times.at(TimePart::exposed), rank.times.communication);
  }
}

TEST(RankTime, of_a_host_is_that_of_its_first_thread) {
  trace::test::SmallTrace made;
  made.step(1, 0, 1'000);
  made.op("aten::mm", 100, 500);
  made.add("user_annotation", "enumerate(DataLoader)#next", "70", "70", 600, 700, "");
  made.op("elsewhere", 0, 900, trace::kNone, "71");
  const auto times = rank_time(timeline_of(made.take()));
  EXPECT_FALSE(times.on_device);
  EXPECT_EQ(times.at(TimePart::compute), 400);
  EXPECT_EQ(times.at(TimePart::input), 100);
  EXPECT_EQ(times.at(TimePart::idle), 100);
  EXPECT_EQ(times.total(), 600);
}

// Of each lane: how long it did what, as pieces and as boxes.
TEST(StepLanes, boxes_are_as_long_as_the_pieces_and_do_not_overlap) {
  const auto job = job_of_traces(job_traces(4, 5));
  for (const size_t most : {size_t{100'000}, size_t{200}, size_t{60}}) {
    const auto step = step_lanes(job, most);
    ASSERT_EQ(step.lanes.size(), 4u * 3);  // a thread, two streams
    EXPECT_NE(step.number, trace::kNone);
    EXPECT_NE(step.number, 4);  // the last
    size_t boxes = 0;
    for (const auto& lane : step.lanes) {
      boxes += lane.boxes.size();
      int64_t busy = 0, pieces = 0, now = 0;
      for (const auto& box : lane.boxes) {
        EXPECT_GE(box.begin, now);
        EXPECT_GT(box.end, box.begin);
        now = box.end, busy += box.end - box.begin, pieces += box.pieces;
      }
      EXPECT_LE(now, step.length);
      int64_t true_busy = 0, true_pieces = 0;
      const auto& rank = job.ranks[lane.rank];
      const auto& time = step.times[lane.rank];
      for (const auto& piece : rank.pieces) {
        const int64_t length = std::min(piece.end, time.end) - std::max(piece.begin, time.begin);
        if (rank.lanes[piece.lane].name == lane.name && length > 0) true_busy += length, ++true_pieces;
      }
      EXPECT_EQ(busy, true_busy) << lane.name;
      EXPECT_EQ(pieces, true_pieces) << lane.name;
    }
    EXPECT_LE(boxes, most);
  }
}

TEST(StepLanes, leaves_out_the_least_busy_lanes_of_each_rank) {
  const auto job = job_of_traces(job_traces(4));
  const auto step = step_lanes(job, 6000, 8);
  EXPECT_EQ(step.left_out, 4u);
  std::map<uint32_t, int> lanes;
  for (const auto& lane : step.lanes) ++lanes[lane.rank];
  for (uint32_t rank = 0; rank < 4; ++rank) EXPECT_EQ(lanes[rank], 2);
  EXPECT_EQ(step_lanes(job, 6000, 2).lanes.size(), 2u);
}

TEST(StepLanes, ranks_on_clocks_that_nothing_puts_together_begin_with_their_own_step) {
  std::vector<trace::Trace> traces;
  for (int rank = 0; rank < 2; ++rank) {
    trace::test::SmallTrace made;
    made.facts().rank = rank;
    const int64_t begin = int64_t{1'000'000'000} * rank;
    made.step(1, begin, begin + 2'000);
    made.op("aten::mm", begin + 500, begin + 1'000);
    traces.push_back(made.take());
  }
  const auto step = step_lanes(job_of_traces(std::move(traces)));
  EXPECT_TRUE(step.apart);
  EXPECT_EQ(step.length, 2'000);
  ASSERT_EQ(step.lanes.size(), 2u);
  for (const auto& lane : step.lanes) EXPECT_EQ(lane.boxes.at(0).begin, 500);
  EXPECT_FALSE(step_lanes(job_of_traces(job_traces(2))).apart);
}

TEST(StepLanes, tells_copies_from_computation) {
  trace::test::SmallTrace made;
  made.kernel("gemm", 0, 100'000);
  made.kernel("Memcpy DtoD (Device -> Device)", 100'000, 200'000);
  made.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", 200'000, 300'000);
  std::vector<trace::Trace> traces;
  traces.push_back(made.take());
  const auto job = job_of_traces(std::move(traces));
  const auto step = step_lanes(job);
  ASSERT_EQ(step.lanes.size(), 1u);
  ASSERT_EQ(step.lanes[0].boxes.size(), 3u);
  EXPECT_EQ(step.number, trace::kNone);
  EXPECT_EQ(step.lanes[0].boxes[0].kind, BoxKind::compute);
  EXPECT_EQ(step.lanes[0].boxes[1].kind, BoxKind::memory);
  EXPECT_EQ(step.lanes[0].boxes[2].kind, BoxKind::communication);
}

}  // namespace
}  // namespace hyperion::analysis
