#include "hyperion/profile/span.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

namespace {
thread_local int64_t allocations = 0;
}

// Counted, as a test below asks for their number. Not inlined: the compiler would see free meet new.
[[gnu::noinline]] void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace hyperion::profile {
namespace {

std::vector<std::string> names(const RecordedSpans& recorded) {
  std::vector<std::string> list;
  for (const auto& span : recorded.spans) list.push_back(span.name);
  return list;
}
using Names = std::vector<std::string>;

TEST(Span, is_recorded_with_what_lies_within_it_in_order) {
  SpanRecorder recorder;
  {
    const SpanPlace place(3, 17);
    const Span step("step");
    {
      Span forward("forward");
      const std::string path = "h.0";
      const Span block("block", path, 5);
    }
    Span data("data", {}, 8);
    data.add_bytes(4);
    data.end();
    data.end();
    const Span backward("backward");
  }
  { const Span after("after"); }
  const auto recorded = recorder.take();
  EXPECT_EQ(names(recorded), (Names{"step", "forward", "block h.0", "data", "backward", "after"}));
  const auto& spans = recorded.spans;
  for (const auto& span : spans) {
    EXPECT_LE(span.begin, span.end) << span.name;
    EXPECT_EQ(span.thread, spans[0].thread);
    EXPECT_EQ(span.rank, span.name == "after" ? -1 : 3);
    EXPECT_EQ(span.step, span.name == "after" ? -1 : 17);
  }
  for (size_t i = 1; i < 5; ++i) EXPECT_TRUE(spans[i].begin >= spans[0].begin && spans[i].end <= spans[0].end) << i;
  EXPECT_TRUE(spans[2].begin >= spans[1].begin && spans[2].end <= spans[1].end);
  EXPECT_LE(spans[1].end, spans[3].begin);
  EXPECT_LE(spans[3].end, spans[4].begin);
  EXPECT_EQ(spans[2].bytes, 5);
  EXPECT_EQ(spans[3].bytes, 12);
  EXPECT_EQ(recorded.dropped, 0);
  EXPECT_TRUE(recorder.take().spans.empty()) << "what was taken is gone";
}

TEST(Span, of_several_threads_are_told_apart_also_when_they_have_ended) {
  constexpr int kThreads = 4, kEach = 500;
  SpanRecorder recorder;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([i] {
      const SpanPlace place(i, -1);
      for (int j = 0; j < kEach; ++j) const Span span("work");
    });
  size_t count = 0;
  std::vector<int64_t> thread_of(kThreads, -1);
  const auto look = [&] {
    for (const auto& span : recorder.take().spans) {
      ++count;
      int64_t& thread = thread_of[static_cast<size_t>(span.rank)];
      if (thread < 0) thread = span.thread;
      EXPECT_EQ(span.thread, thread);
    }
  };
  for (int i = 0; i < 20; ++i) look();  // while they work
  for (auto& thread : threads) thread.join();
  look();
  EXPECT_EQ(count, size_t{kThreads} * kEach);
  std::sort(thread_of.begin(), thread_of.end());
  EXPECT_EQ(std::unique(thread_of.begin(), thread_of.end()), thread_of.end());
}

TEST(Span, counts_only_where_one_recorder_saw_its_begin_and_its_end) {
  Span before("before");
  {
    SpanRecorder recorder;
    before.end();
    EXPECT_TRUE(recorder.take().spans.empty());
  }
  std::optional<SpanRecorder> recorder(std::in_place);
  Span across("across"), beyond("beyond");
  recorder.reset();
  beyond.end();
  { const Span off("off"); }
  recorder.emplace();
  across.end();
  { const Span on("on"); }
  EXPECT_EQ(names(recorder->take()), Names{"on"});
  EXPECT_ANY_THROW(SpanRecorder());
  { const Span on("on still"); }
  EXPECT_EQ(names(recorder->take()), Names{"on still"});
}

TEST(Span, beyond_the_room_are_dropped_and_counted) {
  SpanRecorder recorder(10);
  for (int i = 0; i < 25; ++i) const Span span("work");
  auto taken = recorder.take();
  EXPECT_EQ(taken.spans.size(), 10u);
  EXPECT_EQ(taken.dropped, 15);
  for (int i = 0; i < 3; ++i) const Span span("work");
  taken = recorder.take();
  EXPECT_EQ(taken.spans.size(), 3u) << "taking makes room";
  EXPECT_EQ(taken.dropped, 0);
}

TEST(Span, allocates_nothing_where_nobody_records) {
  const int64_t before = allocations;
  for (int i = 0; i < 1000; ++i) const Span span("work", "of a name that is longer than a short string holds", i);
  EXPECT_EQ(allocations, before);
  SpanRecorder recorder;
  EXPECT_TRUE(recorder.take().spans.empty());
  { const Span span("work", "of a name that is longer than a short string holds"); }
  EXPECT_GT(allocations, before) << "else nothing is counted here";
}

TEST(Span, becomes_json_that_others_show) {
  SpanRecorder recorder;
  {
    const SpanPlace place(1, 2);
    const Span span("say \"it\"", {}, 64);
  }
  const auto json = nlohmann::json::parse(to_chrome_json(recorder.take()));
  ASSERT_EQ(json["traceEvents"].size(), 1u);
  const auto& event = json["traceEvents"][0];
  EXPECT_EQ(event["name"], "say \"it\"");
  EXPECT_EQ(event["ph"], "X");
  EXPECT_EQ(event["pid"], 1);
  EXPECT_EQ(event["args"], (nlohmann::json{{"bytes", 64}, {"step", 2}}));
  EXPECT_GE(event["dur"].get<double>(), 0);
}

std::vector<std::string>& told() {
  static std::vector<std::string> words;
  return words;
}
const SpanMarker kTells{[](const char* name) { told().emplace_back(name); }, [] { told().emplace_back("end"); }};

TEST(Span, is_told_to_a_marker_with_or_without_a_recorder) {
  told().clear();
  const Span earlier("earlier");
  set_span_marker(&kTells);
  {
    const Span step("step");
    SpanRecorder recorder;
    const Span block("block", "h.0");
    EXPECT_EQ(told(), (Names{"step", "block h.0"}));
    { const Span within("within"); }
    EXPECT_EQ(names(recorder.take()), (Names{"within"}));
  }
  EXPECT_EQ(told(), (Names{"step", "block h.0", "within", "end", "end", "end"}));
  told().clear();
  {
    const Span under_way("under way");
    set_span_marker(nullptr);
    const Span later("later");
  }
  EXPECT_EQ(told(), (Names{"under way", "end"})) << "what began at the marker ends there, and nothing else does";
}

}  // namespace
}  // namespace hyperion::profile
