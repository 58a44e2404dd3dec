#include "hyperion/report/timeline.h"

#include <gtest/gtest.h>

#include <regex>

#include "hyperion/report/plan_picture.h"
#include "hyperion/report/stage_times.h"
#include "hyperion/strategy/stage_work.h"

namespace hyperion::report {
namespace {

size_t times_in(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

strategy::Plan two_stages() {
  strategy::PlannedModel model{.blocks = 2, .width = 4};
  model.costs = {.first = 0, .blocks = {1, 1}, .last = 0};
  model.tensors = {{"a.0.weight", {4}, 0}, {"a.1.weight", {4}, 1}};
  return strategy::make_plan(model, {.layout = strategy::parse_layout("pp=2"), .micro_batches = 3});
}

strategy::PlanWalk by_operations(const strategy::Plan& plan) {
  return strategy::walk(plan, [](int, const strategy::Instruction& instruction) {
    return instruction.does == strategy::Does::forward ? 1.0 : instruction.does == strategy::Does::backward ? 2.0 : 0.0;
  });
}

TEST(Timeline, has_a_box_for_each_thing_where_it_was) {
  const auto svg = timeline_svg("two <rows>", {{"first", {{0, 5, 0, "x", "h"}}}, {"second", {{5, 10, 1, "y", "h&h"}}}},
                                {{"kind", 0}}, {.width = 400});
  EXPECT_NE(svg.find("two &lt;rows&gt;"), std::string::npos);
  EXPECT_NE(svg.find("<title>h&amp;h</title>"), std::string::npos);
  EXPECT_EQ(times_in(svg, "<rect"), 3u);  // and one of the legend
  std::smatch place;
  std::vector<double> begins, widths;
  const std::regex box("<rect x=\"([0-9.]+)\" y=\"[0-9.]+\" width=\"([0-9.]+)\" height=\"20\"");
  for (std::string rest = svg; std::regex_search(rest, place, box); rest = place.suffix())
    begins.push_back(std::stod(place[1])), widths.push_back(std::stod(place[2]));
  ASSERT_EQ(begins.size(), 2u);
  EXPECT_NEAR(begins[1], begins[0] + widths[0], 0.02);
  EXPECT_NEAR(widths[0], widths[1], 0.02);
  EXPECT_NE(timeline_svg("nothing", {}, {}).find("</svg>"), std::string::npos);
}

TEST(Timeline, has_an_axis_and_a_ground_where_asked) {
  const auto svg = timeline_svg("t", {{"first", {{0, 10, 0, "", ""}}}, {"second", {}}}, {{"kind", 0}},
                                {.outlined = false, .ground = true, .unit = "ms"});
  EXPECT_EQ(times_in(svg, "opacity=\".08\""), 2u);
  EXPECT_EQ(times_in(svg, ">ms</text>"), 1u);
  EXPECT_EQ(times_in(svg, ">10</text>"), 1u);
  EXPECT_EQ(times_in(svg, "stroke=\"#fff\""), 0u);
  EXPECT_EQ(times_in(svg, "<title>"), 0u);
}

TEST(PlanPicture, shows_who_computes_what_when) {
  const auto plan = two_stages();
  const auto walk = by_operations(plan);
  EXPECT_EQ(plan_letters(plan, walk, 1), "rank 0    01..aa2bb.cc\nrank 1    .0aa1bb2cc..\n");
  EXPECT_EQ(plan_letters(plan, walk, 1, 5), "");
  const auto svg = plan_svg("plan", plan, walk);
  EXPECT_EQ(times_in(svg, "<title>forward of micro-batch"), 6u);
  EXPECT_EQ(times_in(svg, "<title>backward of micro-batch"), 6u);
}

// What processes tell of a step becomes the walk of a plan, from the first thing done on.
TEST(PlanPicture, shows_a_step_as_it_ran_beneath_its_plan) {
  const auto plan = two_stages();
  std::vector<std::string> told;
  for (size_t rank = 0; rank < 2; ++rank) {
    std::vector<strategy::TimedWork> times;
    double now = 5 + static_cast<double>(rank);
    for (size_t i = 0; i < plan.ranks[rank].size(); ++i) {
      const auto does = plan.ranks[rank][i].does;
      const double takes = does == strategy::Does::forward ? 1 : 3;
      if (does != strategy::Does::forward && does != strategy::Does::backward) continue;
      times.push_back({i, now, now + takes});
      now += takes;
    }
    told.push_back(to_json(times));
  }
  const auto ran = read_walk(plan, told), planned = strategy::ideal_walk(plan, ran);
  EXPECT_DOUBLE_EQ(ran.end, 13);  // the second rank begins 1 later, and each works for 3 times 1 + 3
  EXPECT_DOUBLE_EQ(ran.bubble(plan), 1.0 / 13);
  EXPECT_DOUBLE_EQ(planned.end, 16);
  EXPECT_DOUBLE_EQ(planned.bubble(plan), strategy::bubble_of(plan.pipeline));
  const auto svg = pipeline_svg("both", plan, planned, ran, {0, 4});
  EXPECT_EQ(times_in(svg, "<title>forward of micro-batch"), 12u);
  for (const char* name : {"rank 0, planned", "rank 4, planned", "rank 0, as it ran", "rank 4, as it ran"})
    EXPECT_EQ(times_in(svg, name), 1u) << name;
}

}  // namespace
}  // namespace hyperion::report
