#include "hyperion/analysis/memory_timeline.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/trace/trace_builder.h"

namespace hyperion::analysis {
namespace {

class MemoryTrace {
 public:
  explicit MemoryTrace(int64_t held) : allocated_(held) {}

  void change(int64_t time, int64_t bytes, int64_t address, bool gpu = false, int64_t device = -1) {
    allocated_ += bytes;
    const auto members = base::format(
        R"("s": "t", "args": {{"Total Reserved": {}, "Total Allocated": {}, "Bytes": {}, "Addr": {}, "Device Id": {}, "Device Type": {}}})",
        2 * allocated_, allocated_, bytes, address, device, gpu ? 1 : 0);
    builder_.add(
        {.phase = 'i', .category = "cpu_instant_event", .name = "[memory]", .begin = time, .members = members});
  }
  void call(const char* name, int64_t begin, int64_t end, const char* category = "cpu_op", const char* pid = "0") {
    builder_.add({.category = category, .name = name, .pid = pid, .begin = begin, .duration = end - begin});
  }
  trace::Trace take() { return std::move(builder_).take(); }

 private:
  trace::TraceBuilder builder_;
  int64_t allocated_;
};

std::map<std::string, int64_t> holders_of(const MemoryTimeline& line) {
  std::map<std::string, int64_t> all;
  for (const auto& holder : line.holders) all[holder.name] = holder.bytes;
  return all;
}

TEST(MemoryTimeline, names_who_holds_what_at_the_peak) {
  MemoryTrace made(1000);
  made.call("forward", 10, 100, "user_annotation", "\"hyperion\"");
  made.call("block transformer.h.0", 20, 60, "user_annotation", "\"hyperion\"");
  made.call("aten::linear", 25, 50);
  made.call("aten::addmm", 30, 45);
  made.call("aten::empty", 34, 36);  // for addmm
  made.call("backward", 100, 200, "user_annotation", "\"hyperion\"");
  made.change(35, 64, 1);    // forward, block, addmm
  made.change(48, 32, 2);    // forward, block, linear
  made.change(70, 16, 3);    // forward alone
  made.change(80, -100, 9);  // held before the recording
  made.change(90, -16, 3);
  made.change(120, 200, 3);  // at the same address: backward
  made.change(150, -64, 1);
  const auto trace = made.take();
  const auto lines = memory_timelines(trace);
  ASSERT_EQ(lines.size(), 1u);
  const auto& line = lines[0];
  EXPECT_FALSE(line.gpu);
  EXPECT_EQ(line.allocations, 4);
  EXPECT_EQ(line.held_before, 1000);
  EXPECT_EQ(line.held_after, 1000 + 32 - 100 + 200);
  EXPECT_EQ(line.peak, 1000 + 64 + 32 - 100 + 200);
  EXPECT_EQ(line.peak_time, 120 - 35);
  EXPECT_EQ(line.peak_place, "backward");
  EXPECT_EQ(line.peak_reserved, 2 * line.peak);
  EXPECT_EQ(holders_of(line), (std::map<std::string, int64_t>{{kHeldBefore, 900},
                                                              {"backward", 200},
                                                              {"forward, block transformer.h.0, aten::addmm", 64},
                                                              {"forward, block transformer.h.0, aten::linear", 32}}));
}

TEST(MemoryTimeline, that_only_falls_has_its_peak_before_the_recording) {
  MemoryTrace made(500);
  made.change(10, -100, 1);
  made.change(20, -100, 2);
  const auto lines = memory_timelines(made.take());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].peak, 500);
  EXPECT_EQ(holders_of(lines[0]), (std::map<std::string, int64_t>{{kHeldBefore, 500}}));
}

// Beside sums by hand, on random stories; the points reach the peak, and are few.
TEST(MemoryTimeline, adds_up_to_its_peak) {
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 50; ++trial) {
    const auto held = static_cast<int64_t>(random() % 10'000);
    MemoryTrace made(held);
    std::map<int64_t, int64_t> alive;
    int64_t now = held, peak = held, time = 0;
    for (int i = 0; i < 3000; ++i) {
      time += static_cast<int64_t>(random() % 50);
      const auto address = static_cast<int64_t>(random() % 40);
      const auto found = alive.find(address);
      const int64_t bytes = found != alive.end() ? -found->second : static_cast<int64_t>(1 + random() % 1000);
      found != alive.end() ? void(alive.erase(found)) : void(alive[address] = bytes);
      made.change(time, bytes, address, /*gpu=*/true, /*device=*/2);
      now += bytes, peak = std::max(peak, now);
    }
    const auto lines = memory_timelines(made.take());
    ASSERT_EQ(lines.size(), 1u);
    const auto& line = lines[0];
    EXPECT_TRUE(line.gpu);
    EXPECT_EQ(line.device, 2);
    EXPECT_EQ(line.held_before, held);
    EXPECT_EQ(line.held_after, now);
    EXPECT_EQ(line.peak, peak);
    int64_t sum = 0, most = held;
    for (const auto& holder : line.holders) sum += holder.bytes;
    EXPECT_EQ(sum, peak);
    EXPECT_LE(line.points.size(), kMostPoints);
    for (const auto& point : line.points) most = std::max(most, point.bytes);
    EXPECT_EQ(most, peak);
  }
}

TEST(MemoryTimeline, is_none_where_allocations_were_not_recorded) {
  MemoryTrace made(0);
  made.call("aten::addmm", 30, 45);
  EXPECT_TRUE(memory_timelines(made.take()).empty());
}

TEST(MemoryTimeline, refuses_events_that_do_not_say_how_much) {
  trace::TraceBuilder builder;
  builder.add(
      {.phase = 'i', .category = "cpu_instant_event", .name = "[memory]", .begin = 5, .members = R"("s": "t")"});
  EXPECT_THROW(memory_timelines(std::move(builder).take()), base::CorruptError);
}

}  // namespace
}  // namespace hyperion::analysis
