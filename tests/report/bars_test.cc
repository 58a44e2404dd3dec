#include "hyperion/report/bars.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hyperion::report {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Bars, the_longest_of_a_group_fills_the_room_and_others_are_in_proportion) {
  const auto svg = bars_svg("t", {{"g", {{"a", 2, ""}, {"a", 1, ""}}}}, BarScale::group, 200);
  const double room = 200 - 12 - 6.7 - 8 - 8 - 12;
  EXPECT_NE(svg.find("width=\"" + std::to_string(room).substr(0, 5)), std::string::npos) << svg;
  EXPECT_EQ(count(svg, "<rect"), 2u);
}

TEST(Bars, groups_of_one_scale_can_be_compared) {
  const std::vector<BarGroup> groups = {{"g", {{"a", 2, ""}}}, {"h", {{"a", 1, ""}}}};
  const double room = 200 - 12 - 6.7 - 8 - 8 - 12;
  const std::string full = "width=\"" + std::to_string(room).substr(0, 5), half = "width=\"76.7";
  EXPECT_EQ(count(bars_svg("t", groups, BarScale::group, 200), full), 2u);
  const auto shared = bars_svg("t", groups, BarScale::shared, 200);
  EXPECT_EQ(count(shared, full), 1u) << shared;
  EXPECT_EQ(count(shared, half), 1u) << shared;
}

TEST(Bars, what_has_no_value_has_only_its_text) {
  const auto svg = bars_svg("t", {{"g", {{"a", std::nan(""), "no figures"}, {"b", -1, "none"}, {"c", 1, "1 ms"}}}});
  EXPECT_EQ(count(svg, "<rect"), 1u);
  EXPECT_NE(svg.find("no figures"), std::string::npos);
}

TEST(Bars, text_is_escaped_and_nothing_is_still_a_picture) {
  EXPECT_EQ(bars_svg("<b>", {}).find("<b>"), std::string::npos);
  EXPECT_NE(bars_svg("t", {{"g", {}}}).find("</svg>"), std::string::npos);
}

}  // namespace
}  // namespace hyperion::report
