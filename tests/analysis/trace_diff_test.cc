#include "hyperion/analysis/trace_diff.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

namespace hyperion::analysis {
namespace {

constexpr int kKernels = 20, kCalls = 60;

// Kernels of 20 to 400 us, each call's time with 3% of noise.
std::vector<RankAnalysis> kernels_recorded(std::mt19937& random, double pace, int slower, double by) {
  RankAnalysis rank;
  rank.steps = 3;
  std::normal_distribution<double> noise(0, 0.03);
  for (int i = 0; i < kKernels; ++i) {
    const double time =
        20'000.0 * std::pow(20, static_cast<double>(i) / (kKernels - 1)) * pace * (i == slower ? by : 1);
    KernelRow row;
    row.name = "kernel " + std::to_string(i);
    row.count = kCalls;
    double squares = 0, sum = 0;
    for (int call = 0; call < kCalls; ++call) {
      const double own = time * std::exp(noise(random));
      sum += own, squares += own * own;
    }
    row.sum = std::llround(sum);
    row.mean = sum / kCalls;
    row.deviation = std::sqrt((squares - sum * sum / kCalls) / (kCalls - 1));
    rank.times.total += row.sum;
    rank.kernels.push_back(row);
  }
  return {rank};
}

TEST(TraceDiff, names_the_slower_kernel_first_whatever_the_clock_did) {
  int first = 0, told = 0, innocent = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    std::mt19937 random(seed);
    const double pace = 0.85 + 0.3 * static_cast<double>(random() % 1001) / 1000;
    const int slower = static_cast<int>(random() % kKernels);
    const auto before = kernels_recorded(random, 1, -1, 1), after = kernels_recorded(random, pace, slower, 1.05);
    const auto found = diff(before, after, {.percent = 3, .share = 0.01});
    const auto planted = "kernel " + std::to_string(slower);
    first += found.kernels[0].name == planted ? 1 : 0;
    told += std::abs(found.pace - pace) < 0.01 ? 1 : 0;
    for (const auto& row : found.kernels) innocent += row.regression && row.name != planted ? 1 : 0;
  }
  std::printf("named first %d of 100, the pace within 1%% %d of 100, others called slower %d\n", first, told, innocent);
  EXPECT_GE(first, 95);
  EXPECT_GE(told, 95);
  EXPECT_EQ(innocent, 0);
}

TEST(TraceDiff, of_another_clock_alone_is_no_regression_and_is_told) {
  std::mt19937 random(3);
  const auto found = diff(kernels_recorded(random, 1, -1, 1), kernels_recorded(random, 1.12, -1, 1));
  EXPECT_FALSE(found.regression);
  EXPECT_NEAR(found.pace, 1.12, 0.01);
  EXPECT_NE(pace_text(found.pace).find("% longer"), std::string::npos);
  EXPECT_EQ(diff_json(found)["pace"], found.pace);
}

// One kernel alone, even where it is most of the time, is no clock.
TEST(TraceDiff, of_one_kernel_alone_is_its_own_doing) {
  std::mt19937 random(5);
  auto before = kernels_recorded(random, 1, -1, 1);
  before[0].kernels[3].sum *= 1000, before[0].kernels[3].mean *= 1000, before[0].kernels[3].deviation *= 1000;
  auto after = before;
  after[0].kernels[3].sum = after[0].kernels[3].sum * 11 / 10;
  const auto found = diff(before, after);
  EXPECT_EQ(found.pace, 1);
  EXPECT_TRUE(found.regression);
  EXPECT_EQ(found.kernels[0].name, "kernel 3");
}

}  // namespace
}  // namespace hyperion::analysis
