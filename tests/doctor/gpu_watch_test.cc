#include "hyperion/doctor/gpu_watch.h"

#include <gtest/gtest.h>

#include <atomic>

#include "hyperion/doctor/job_watch.h"

namespace hyperion::doctor {
namespace {

// Answers what a test wants, and counts how often it was asked.
class MadeReader final : public host::GpuReader {
 public:
  MadeReader(host::GpuVitals vitals, std::atomic<int>& asked) : vitals_(vitals), asked_(asked) {}
  host::GpuVitals read() override {
    if (vitals_.energy) *vitals_.energy += 1000;  // so much that no time makes it little
    ++asked_;
    return vitals_;
  }

 private:
  host::GpuVitals vitals_;
  std::atomic<int>& asked_;
};

void wait_until(const std::atomic<int>& asked, int count) {
  while (asked < count) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(GpuWatch, tells_what_was_read_since_the_last_time) {
  std::atomic<int> asked = 0;
  const host::GpuVitals vitals{1700, 61, 98, 650, {}, host::Slowed::power};
  GpuWatch watch(std::make_unique<MadeReader>(vitals, asked), std::chrono::milliseconds(1));
  EXPECT_GE(asked, 1) << "at once";
  wait_until(asked, 5);
  const auto digest = watch.since_last();
  EXPECT_EQ(digest.clock, 1700);
  EXPECT_EQ(digest.temperature, 61);
  EXPECT_EQ(digest.busy, 98);
  EXPECT_EQ(digest.power, 650);
  EXPECT_EQ(digest.slowed, host::Slowed::power);
}

TEST(GpuWatch, tells_the_last_again_where_nothing_is_new) {
  std::atomic<int> asked = 0;
  GpuWatch watch(std::make_unique<MadeReader>(host::GpuVitals{1500, {}, {}, {}, {}, {}}, asked), std::chrono::hours(1));
  EXPECT_EQ(watch.since_last().clock, 1500);
  const auto again = watch.since_last();
  EXPECT_EQ(again.clock, 1500);
  EXPECT_FALSE(again.power || again.slowed);
  EXPECT_EQ(asked, 1);
}

TEST(GpuWatch, takes_the_power_from_the_energy_that_was_used) {
  std::atomic<int> asked = 0;
  GpuWatch watch(std::make_unique<MadeReader>(host::GpuVitals{{}, {}, {}, 1, 0, {}}, asked),
                 std::chrono::milliseconds(1));
  watch.since_last();  // the first reading has none before it
  wait_until(asked, 4);
  EXPECT_GT(watch.since_last().power.value_or(0), 100);
}

// Eight ranks, one of which computes longer because its GPU is held down.
TEST(JobWatch, says_what_the_GPU_of_a_slow_rank_does) {
  std::atomic<int> asked = 0;
  JobWatch hot(std::vector<int>(8, 0),
               std::make_unique<MadeReader>(host::GpuVitals{1200, {}, {}, {}, {}, host::Slowed::heat}, asked));
  JobWatch cool(std::vector<int>(8, 0),
                std::make_unique<MadeReader>(host::GpuVitals{1755, {}, {}, {}, {}, host::Slowed::power}, asked));
  hot.begin(0), hot.end(0), cool.begin(0), cool.end(0);
  const auto slow = hot.told(), usual = cool.told();
  std::vector<SlowRank> found;
  for (int step = 0; step < 40; ++step) {
    std::vector<JobWatch::Told> all(8, usual);
    all[5] = slow;
    for (auto& told : all) told[0] = 30'000, told[1] = 100, told[2] = 9'000, told[3] = 0;
    all[5][2] = 3'000;
    for (const auto& each : cool.add(all)) found.push_back(each);
  }
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rank, 5);
  EXPECT_EQ(found[0].beside, "its GPU runs at 1200 MHz, others at 1755; what slows it is heat");
  EXPECT_NE(slow_text(found[0]).find(": its GPU runs at 1200 MHz"), std::string::npos) << slow_text(found[0]);
}

}  // namespace
}  // namespace hyperion::doctor
