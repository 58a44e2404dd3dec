#include "hyperion/report/plot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "hyperion/report/axis.h"
#include "hyperion/report/markup.h"
#include "hyperion/report/thin.h"

namespace hyperion::report {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

std::vector<std::string> labels(const Axis& axis) {
  std::vector<std::string> out;
  for (const Tick& tick : axis.ticks) out.push_back(tick.label);
  return out;
}
using Labels = std::vector<std::string>;

Plot plot_of(std::vector<Series> series) {
  Plot plot;
  plot.title = "Loss";
  plot.series = std::move(series);
  return plot;
}

size_t count_in_plot(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// "M" and "L" each start one point of a drawn line; the grid and legend use neither L nor a series' class with L.
size_t drawn_points(const std::string& svg) { return count_in_plot(svg, "L") + count_in_plot(svg, "h0"); }

TEST(Axis, steps_by_one_two_or_five) {
  EXPECT_EQ(labels(make_axis(0, 10, false, 5, true)), (Labels{"0", "2", "4", "6", "8", "10"}));
  EXPECT_EQ(labels(make_axis(0, 1.9, false, 4, true)), (Labels{"0", "0.5", "1.0", "1.5", "2.0"}));
  EXPECT_EQ(labels(make_axis(-3, 3, false, 6, true)), (Labels{"-3", "-2", "-1", "0", "1", "2", "3"}));
}

TEST(Axis, writes_large_and_small_figures_short) {
  EXPECT_EQ(labels(make_axis(0, 20000, false, 4, true)), (Labels{"0", "5k", "10k", "15k", "20k"}));
  EXPECT_EQ(labels(make_axis(0, 3e-4, false, 3, true)), (Labels{"0", "1e-4", "2e-4", "3e-4"}));
  EXPECT_EQ(labels(make_axis(0, 2.5e6, false, 5, true)), (Labels{"0", "0.5M", "1.0M", "1.5M", "2.0M", "2.5M"}));
}

TEST(Axis, log_ticks_stand_at_decades) {
  EXPECT_EQ(labels(make_axis(1e-5, 10, true, 6, true)), (Labels{"1e-5", "1e-4", "0.001", "0.01", "0.1", "1", "10"}));
  EXPECT_EQ(labels(make_axis(1, 100, true, 6, true)), (Labels{"1", "2", "5", "10", "20", "50", "100"}));
  const Axis wide = make_axis(1e-30, 1e30, true, 6, true);
  EXPECT_GE(wide.ticks.size(), 4u);
  EXPECT_LE(wide.ticks.size(), 9u);
}

TEST(Axis, every_tick_lies_inside_and_every_range_has_some) {
  for (bool log : {false, true}) {
    for (bool round_out : {false, true}) {
      for (double low : {1e-12, 0.37, 7.0, 12345.678, 9.9e20}) {
        for (double times : {1.0, 1.0 + 1e-9, 1.001, 1.7, 33.0, 1e7}) {
          const Axis axis = make_axis(low, low * times, log, 5, round_out);
          ASSERT_LT(axis.low, axis.high);
          EXPECT_LE(axis.low, low * (1 + 1e-9));
          EXPECT_GE(axis.high, low * times * (1 - 1e-9));
          EXPECT_GE(axis.ticks.size(), 2u) << low << " x " << times << " log " << log << " round " << round_out;
          for (const Tick& tick : axis.ticks) {
            EXPECT_TRUE(tick.value >= axis.low && tick.value <= axis.high) << tick.label;
          }
        }
      }
    }
  }
}

TEST(Thin, keeps_every_extreme_of_a_long_series) {
  Series series{"s", {}, {}};
  for (int i = 0; i < 50'000; ++i) {
    series.x.push_back(i);
    series.y.push_back(std::sin(i * 0.001));
  }
  series.y[12'345] = 100;
  series.y[33'333] = -100;
  const Series thin = thinned(series, 1000);
  EXPECT_LE(thin.x.size(), 1000u);
  EXPECT_GT(thin.x.size(), 900u);
  EXPECT_EQ(thin.x.front(), 0);
  EXPECT_EQ(thin.x.back(), 49'999);
  EXPECT_TRUE(std::is_sorted(thin.x.begin(), thin.x.end()));
  const auto top = std::max_element(thin.y.begin(), thin.y.end()) - thin.y.begin();
  const auto bottom = std::min_element(thin.y.begin(), thin.y.end()) - thin.y.begin();
  EXPECT_EQ(thin.x[top], 12'345);
  EXPECT_EQ(thin.x[bottom], 33'333);
}

TEST(Thin, keeps_gaps_and_short_series) {
  Series series{"s", {}, {}};
  for (int i = 0; i < 10'000; ++i) {
    series.x.push_back(i);
    series.y.push_back(i % 5000 == 4000 ? kMissing : i);
  }
  const Series thin = thinned(series, 1000);
  EXPECT_LE(thin.x.size(), 1000u);
  EXPECT_EQ(std::count_if(thin.y.begin(), thin.y.end(), [](double y) { return std::isnan(y); }), 2);
  const Series few{"s", {1, 2}, {3, 4}};
  EXPECT_EQ(thinned(few, 1000).y, few.y);
}

TEST(Plot, escapes_every_text) {
  Plot plot = plot_of({{"<script>a&b</script>", {1, 2}, {1, 2}}, {"\"quoted\"", {1, 2}, {2, 1}}});
  plot.title = "x < y & 'z'";
  plot.x_label = "<b>";
  plot.y_label = "<i>";
  const std::string text = svg(plot);
  for (const char* raw : {"<script", "<b>", "<i>", "x < y", "a&b", "\"quoted\""})
    EXPECT_EQ(count_in_plot(text, raw), 0u) << raw;
  EXPECT_GE(count_in_plot(text, "&lt;script&gt;a&amp;b&lt;/script&gt;"), 1u);
}

TEST(Plot, says_when_there_is_nothing_to_draw) {
  EXPECT_EQ(count_in_plot(svg(plot_of({})), "no points to show"), 1u);
  EXPECT_EQ(count_in_plot(svg(plot_of({{"s", {}, {}}})), "no points to show"), 1u);
  EXPECT_EQ(count_in_plot(svg(plot_of({{"s", {1, 2}, {kMissing, kMissing}}})), "no points to show"), 1u);
  Plot log = plot_of({{"s", {1, 2}, {0, -1}}});
  log.log_y = true;
  EXPECT_EQ(count_in_plot(svg(log), "no points to show"), 1u);
  EXPECT_EQ(count_in_plot(svg(plot_of({{"s", {3}, {7}}})), "no points to show"), 0u);
}

TEST(Plot, breaks_the_line_where_a_point_is_not_finite) {
  const double infinite = std::numeric_limits<double>::infinity();
  const std::string text = svg(plot_of({{"s", {1, 2, 3, 4, 5, 6, 7}, {1, 2, kMissing, 3, infinite, 4, 5}}}));
  EXPECT_EQ(count_in_plot(text, "h0"), 3u);
  EXPECT_EQ(count_in_plot(text, "nan"), 0u);
  EXPECT_EQ(count_in_plot(text, "inf"), 0u);
}

TEST(Plot, survives_values_at_the_ends_of_the_number_line) {
  const double huge = std::numeric_limits<double>::max(), tiny = std::numeric_limits<double>::denorm_min();
  for (bool log : {false, true}) {
    Plot plot =
        plot_of({{"s", {-huge, 0, tiny, 1, huge}, {huge, -huge, tiny, 1e299, 3}}, {"t", {1, 2}, {1e16, 1e16 + 2}}});
    plot.log_x = plot.log_y = log;
    const std::string text = svg(plot);
    EXPECT_EQ(count_in_plot(text, "nan"), 0u);
    EXPECT_EQ(count_in_plot(text, "inf"), 0u);
  }
}

TEST(Plot, draws_a_long_series_with_at_most_a_thousand_points) {
  Series series{"s", {}, {}};
  for (int i = 0; i < 30'000; ++i) {
    series.x.push_back(i);
    series.y.push_back(i % 7);
  }
  const size_t points = drawn_points(svg(plot_of({series})));
  EXPECT_LE(points, 1010u);
  EXPECT_GE(points, 500u);
}

TEST(Plot, names_the_sizes_that_were_measured) {
  Plot plot = plot_of({{"fp32", {1024, 2048, 4096, 16384}, {1, 2, 3, 4}}});
  plot.log_x = true;
  const std::string text = svg(plot);
  for (const char* size : {">1024<", ">2048<", ">4096<", ">16384<"}) EXPECT_EQ(count_in_plot(text, size), 1u) << size;
}

TEST(Plot, points_by_themselves_are_named_and_not_joined) {
  Series points{"kernels", {1, 10, kMissing}, {2, 3, 4}, {{"gelu <forward>", true}, {"norm"}, {"nowhere", true}}};
  const auto svg_text = svg(plot_of({points}));
  EXPECT_EQ(count_in_plot(svg_text, "<circle"), 2u);
  EXPECT_EQ(count_in_plot(svg_text, "class=\"line"), 0u) << svg_text;
  EXPECT_EQ(count_in_plot(svg_text, "gelu &lt;forward&gt;"), 2u);  // beside it, and where it is pointed at
  EXPECT_EQ(count_in_plot(svg_text, "norm"), 1u);
  EXPECT_EQ(count_in_plot(svg_text, "nowhere"), 0u);
  EXPECT_NE(svg(plot_of({points, {"roof", {1, 2}, {1, 2}}})).find("r=\"4\""), std::string::npos);
}

TEST(Plot, shows_a_legend_only_for_several_series) {
  EXPECT_EQ(count_in_plot(svg(plot_of({{"alone", {1, 2}, {1, 2}}})), "alone</text>"), 0u);
  const std::string both = svg(plot_of({{"first", {1, 2}, {1, 2}}, {"second", {1, 2}, {1, 2}}}));
  EXPECT_EQ(count_in_plot(both, "first</text>"), 1u);
  EXPECT_EQ(count_in_plot(both, "second</text>"), 1u);
}

TEST(Markup, replaces_what_xml_forbids) {
  EXPECT_EQ(escaped("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(escaped("naïve 数 ✓\n\t"), "naïve 数 ✓\n\t");
  EXPECT_EQ(escaped(std::string("\0\x1b", 2)), "\uFFFD\uFFFD");
  EXPECT_EQ(escaped("\xff\xc3("), "\uFFFD\uFFFD(");
  EXPECT_EQ(escaped("\xe6\x95"), "\uFFFD\uFFFD");
  EXPECT_EQ(escaped("\xc0\xbc"), "\uFFFD\uFFFD");
  EXPECT_EQ(escaped("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");
}

TEST(Markup, shortens_by_whole_characters) {
  EXPECT_EQ(shortened("数数数数", 4), "数数数数");
  EXPECT_EQ(shortened("数数数数", 3), "数数…");
  EXPECT_EQ(shortened("abc", 0), "");
}

}  // namespace
}  // namespace hyperion::report
