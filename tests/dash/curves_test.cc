#include "hyperion/dash/curves.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace hyperion::dash {
namespace {

using Json = nlohmann::json;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

Json view(const Curves& curves, int64_t from, int64_t to, size_t width) {
  return Json::parse("{" + curves.members(curves.between(from, to, width)) + "}");
}

TEST(Curves, tells_single_steps_as_they_are) {
  Curves curves;
  curves.add(1, 0.5, {{"a", 3}, {"b", kNan}});
  curves.add(2, 1, {{"a", 0.1}, {"b", 7}, {"c", 1}});
  const Json told = view(curves, 0, kEnd, 100);
  EXPECT_EQ(told["steps"], Json({1, 2}));
  EXPECT_EQ(told["seconds"], Json({0.5, 1.0}));
  EXPECT_EQ(told["curves"]["a"], Json({{"mean", {3.0, 0.1}}}));
  EXPECT_EQ(told["curves"]["b"]["mean"], Json({nullptr, 7.0}));
  EXPECT_EQ(told["curves"]["c"]["mean"], Json({nullptr, 1.0}));
}

TEST(Curves, points_of_many_steps_keep_the_lowest_and_highest) {
  Curves curves;
  for (int64_t step = 1; step <= 1000; ++step)
    curves.add(step, 0, {{"a", step == 777 ? 1e6 : static_cast<double>(step % 2)}});
  const Json told = view(curves, 0, kEnd, 10);
  ASSERT_EQ(told["steps"].size(), 10u);
  EXPECT_EQ(told["steps"][9], 1000);
  EXPECT_EQ(told["curves"]["a"]["high"][7], 1e6);
  EXPECT_EQ(told["curves"]["a"]["high"][8], 1.0);
  EXPECT_EQ(told["curves"]["a"]["low"][8], 0.0);
  EXPECT_EQ(told["curves"]["a"]["mean"][8], 0.5);
}

TEST(Curves, a_stretch_is_told_with_what_is_beside_it) {
  Curves curves;
  for (int64_t step = 1; step <= 100; ++step) curves.add(step, 0, {{"a", 1}});
  EXPECT_EQ(view(curves, 50, 52, 0)["steps"], Json({49, 50, 51, 52, 53}));
  EXPECT_EQ(view(curves, 99, kEnd, 0)["steps"], Json({98, 99, 100}));
}

TEST(Curves, memory_ends_and_nothing_that_stands_out_is_lost) {
  Curves curves;
  const auto first = curves.generation();
  const auto steps = static_cast<int64_t>(5 * Curves::kMostRows);
  for (int64_t step = 1; step <= steps; ++step)
    curves.add(step, static_cast<double>(step), {{"a", step == 3 ? -5.0 : step == steps - 1 ? 9.0 : 1.0}});
  EXPECT_LE(curves.rows(), Curves::kMostRows);
  EXPECT_GE(curves.rows(), Curves::kMostRows / 2);
  EXPECT_GT(curves.generation(), first);
  const Json told = view(curves, 0, kEnd, 16);
  EXPECT_EQ(told["steps"].back(), steps);
  EXPECT_EQ(told["curves"]["a"]["low"][0], -5.0);
  EXPECT_EQ(told["curves"]["a"]["high"].back(), 9.0);
  EXPECT_EQ(told["curves"]["a"]["low"][5], 1.0);
}

TEST(Curves, a_run_of_many_names_keeps_the_first) {
  Curves curves;
  std::vector<report::NamedValue> values;
  for (int i = 0; i < 1000; ++i) values.push_back({"n" + std::to_string(i), 1});
  curves.add(1, 0, values);
  EXPECT_EQ(view(curves, 0, kEnd, 0)["curves"].size(), Curves::kMostColumns);
}

TEST(Curves, what_begins_anew_is_another_generation) {
  Curves curves;
  curves.add(1, 0, {{"a", 1}});
  const auto before = curves.generation();
  curves.clear();
  EXPECT_GT(curves.generation(), before);
  EXPECT_EQ(curves.rows(), 0u);
}

}  // namespace
}  // namespace hyperion::dash
