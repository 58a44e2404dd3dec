#include "hyperion/profile/step_timer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "hyperion/base/clock.h"
#include "hyperion/profile/memory.h"

namespace hyperion::profile {
namespace {

double of(const PhaseTimes& times, Phase phase) { return times[static_cast<size_t>(phase)]; }
void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

TEST(StepTimer, starts_at_zero) {
  for (const double time : make_step_timer(false)->milliseconds()) EXPECT_EQ(time, 0);
}

// A sleep lasts at least as long as asked, so these hold on any machine.
TEST(StepTimer, adds_up_repeated_phases_and_loses_no_time) {
  const double begin = base::real_clock().seconds();
  const auto timer = make_step_timer(false);
  const double made = base::real_clock().seconds();
  for (int part = 0; part < 3; ++part) {
    nap();
    timer->mark(Phase::forward);
    nap();
    timer->mark(Phase::backward);
  }
  const double marked = base::real_clock().seconds();
  timer->mark(Phase::optimizer);
  const double end = base::real_clock().seconds();
  nap();
  const auto times = timer->milliseconds();
  EXPECT_GE(of(times, Phase::forward), 15);
  EXPECT_GE(of(times, Phase::backward), 15);
  EXPECT_EQ(of(times, Phase::data), 0);
  const double sum = of(times, Phase::forward) + of(times, Phase::backward) + of(times, Phase::optimizer);
  EXPECT_GE(sum, 1e3 * (marked - made) - 1e-6);
  EXPECT_LE(sum, 1e3 * (end - begin) + 1e-6);
  EXPECT_EQ(timer->milliseconds(), times);
}

TEST(MemoryUse, of_the_process_is_plausible) {
  const MemoryUse use = memory_use(false);
  ASSERT_TRUE(use.allocated && use.peak);
  EXPECT_FALSE(use.reserved);
  EXPECT_GT(*use.allocated, 1 << 20);
  EXPECT_GE(*use.peak, *use.allocated);
}

TEST(MemoryUse, keeps_the_peak_of_what_was_freed) {
  constexpr size_t kBytes = 64 << 20;
  const MemoryUse before = memory_use(false);
  {
    std::vector<char> block(kBytes, 1);
    volatile char touched = block[kBytes / 2];
    (void)touched;
    EXPECT_GE(*memory_use(false).allocated, static_cast<int64_t>(kBytes));
  }
  EXPECT_GE(*memory_use(false).peak, *before.allocated + static_cast<int64_t>(kBytes) * 9 / 10);
}

}  // namespace
}  // namespace hyperion::profile
