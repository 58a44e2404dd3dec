#include "hyperion/report/plot.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/report/axis.h"
#include "hyperion/report/markup.h"
#include "hyperion/report/thin.h"

namespace hyperion::report {
namespace {

using base::format;

constexpr size_t kMostPoints = 1000;
constexpr size_t kMostMarkers = 40;  // a series this short shows each of its points
constexpr size_t kMostNamedPlaces = 9;
constexpr double kCharacter = 6.7;  // typical width at 12 px
constexpr double kTitleCharacter = 8.2;
constexpr double kRow = 19;
constexpr double kTooLarge =
    1e300;  // differences of such values would overflow, and powers of ten below its inverse vanish

// Okabe and Ito's colors, which color-blind people tell apart; the dark ones are lightened for a dark page.
struct Color {
  const char *light, *dark;
};
constexpr Color kColors[] = {{"#0072B2", "#58B4F0"}, {"#D55E00", "#FF8A3D"}, {"#009E73", "#2FCB9B"},
                             {"#B5629A", "#E49AC6"}, {"#C98A00", "#F2B632"}, {"#2A9FD6", "#8AD3FF"},
                             {"#5B5BD6", "#A6A6FF"}, {"#6B6B6B", "#B4B4B4"}};
constexpr size_t kColourCount = std::size(kColors);
constexpr const char* kDashes[] = {"", "7 4", "2 4", "9 4 2 4"};  // once the colors are used up

struct Frame {
  double left, right, top, bottom;
  Axis x, y;
  double at_x(double value) const { return left + x.fraction(value) * (right - left); }
  double at_y(double value) const { return bottom - y.fraction(value) * (bottom - top); }
};

bool drawable(double value, bool log) { return std::abs(value) < kTooLarge && (!log || value > 1 / kTooLarge); }

// Points that cannot stand on these axes become gaps.
Series with_gaps(const Series& series, const Plot& plot) {
  HYPERION_CHECK(series.x.size() == series.y.size(), "a series has as many x as y");
  HYPERION_CHECK(series.points.empty() || series.points.size() == series.x.size(), "each point has its name, or none");
  Series out{series.name, {}, {}};
  for (size_t i = 0; i < series.x.size(); ++i) {
    if (!drawable(series.x[i], plot.log_x)) continue;
    if (!series.points.empty()) out.points.push_back(series.points[i]);
    out.x.push_back(series.x[i]);
    out.y.push_back(drawable(series.y[i], plot.log_y) ? series.y[i] : std::numeric_limits<double>::quiet_NaN());
  }
  return out;
}

struct Bounds {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

// The x of all points where there are few enough to name each, else empty.
std::vector<double> few_places(const std::vector<Series>& all) {
  std::set<double> places;
  for (const Series& series : all) {
    for (size_t i = 0; i < series.x.size(); ++i) {
      if (std::isfinite(series.y[i])) places.insert(series.x[i]);
      if (places.size() > kMostNamedPlaces) return {};
    }
  }
  return {places.begin(), places.end()};
}

std::string styles() {
  std::string out =
      ".hplot{font:12px system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",Arial,sans-serif}"
      "svg.hplot:root{color:#1f2328}"
      ".hplot .line{fill:none;stroke-linejoin:round;stroke-linecap:round}"
      ".hplot text{font-variant-numeric:tabular-nums}";
  std::string dark = "svg.hplot:root{color:#e6edf3}";
  for (size_t i = 0; i < kColourCount; ++i) {
    const auto rule = [&](const char* color) {
      return format(".hplot .c{0}{{stroke:var(--series-{0},{1})}}.hplot .d{0}{{fill:var(--series-{0},{1})}}", i + 1,
                    color);
    };
    out += rule(kColors[i].light);
    dark += rule(kColors[i].dark);
  }
  return "<style>" + out + "@media (prefers-color-scheme:dark){" + dark + "}</style>\n";
}

// The attributes say it again for viewers that read no CSS.
std::string stroke_of(size_t index) {
  const char* dashes = kDashes[index / kColourCount % std::size(kDashes)];
  const std::string dash = *dashes ? format(" stroke-dasharray=\"{}\"", dashes) : "";
  return format("class=\"line c{}\" stroke=\"{}\" fill=\"none\"{}", index % kColourCount + 1,
                kColors[index % kColourCount].light, dash);
}
std::string fill_of(size_t index) {
  return format("class=\"d{}\" fill=\"{}\"", index % kColourCount + 1, kColors[index % kColourCount].light);
}

std::string text(double x, double y, const char* attributes, const std::string& content) {
  return format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"currentColor\" {}>{}</text>\n", x, y, attributes,
                escaped(content));
}

std::string heading(const Plot& plot, double& y) {
  std::string out;
  double label_x = 12;
  if (!plot.title.empty()) {
    y += 24;
    const std::string title = shortened(plot.title, static_cast<size_t>((plot.width - 24) / kTitleCharacter));
    out += text(12, y, "font-size=\"15\" font-weight=\"600\"", title);
    label_x += static_cast<double>(characters(title)) * kTitleCharacter + 10;
  }
  if (plot.y_label.empty()) return out;
  const double wide = static_cast<double>(characters(plot.y_label)) * kCharacter;
  if (y == 0 || label_x + wide > plot.width - 12) {
    y += kRow;
    label_x = 12;
  }
  const std::string label = shortened(plot.y_label, static_cast<size_t>((plot.width - 24) / kCharacter));
  // Beside the title while there is room, at the far end so that no guess of the title's width can make them touch.
  if (label_x == 12) return out + text(12, y, "opacity=\".65\"", label);
  return out + text(plot.width - 12, y, "opacity=\".65\" text-anchor=\"end\"", label);
}

std::string legend(const Plot& plot, double& y) {
  if (plot.series.size() < 2) return {};
  std::string out;
  double x = 12;
  y += kRow + 3;
  for (size_t i = 0; i < plot.series.size(); ++i) {
    const std::string name = shortened(plot.series[i].name, 48);
    const double wide = 26 + static_cast<double>(characters(name)) * kCharacter + 14;
    if (x > 12 && x + wide > plot.width) {
      x = 12;
      y += kRow;
    }
    if (plot.series[i].points.empty())
      out += format("<path {} stroke-width=\"2.5\" d=\"M{:.1f} {:.1f}h18\"/>", stroke_of(i), x + 1, y - 4);
    else
      out += format("<circle {} cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>", fill_of(i), x + 10, y - 4);
    out += text(x + 26, y, "opacity=\".85\"", name);
    x += wide;
  }
  return out;
}

double widest_label(const Axis& axis) {
  size_t most = 1;
  for (const Tick& tick : axis.ticks) most = std::max(most, characters(tick.label));
  return static_cast<double>(most) * kCharacter;
}

std::string grid(const Frame& frame) {
  std::string lines, labels;
  for (const Tick& tick : frame.y.ticks) {
    const double y = frame.at_y(tick.value);
    lines += format("M{:.1f} {:.1f}H{:.1f}", frame.left, y, frame.right);
    labels += text(frame.left - 8, y + 4, "opacity=\".75\" text-anchor=\"end\"", tick.label);
  }
  double free_from = -1e9;
  for (const Tick& tick : frame.x.ticks) {
    const double x = frame.at_x(tick.value), half = static_cast<double>(characters(tick.label)) * kCharacter / 2;
    lines += format("M{:.1f} {:.1f}V{:.1f}", x, frame.top, frame.bottom);
    if (x - half < free_from) continue;
    labels += text(x, frame.bottom + 18, "opacity=\".75\" text-anchor=\"middle\"", tick.label);
    free_from = x + half + 8;
  }
  return format("<path d=\"{}\" stroke=\"currentColor\" stroke-opacity=\".13\" fill=\"none\"/>\n", lines) +
         format("<path d=\"M{0:.1f} {1:.1f}H{2:.1f}\" stroke=\"currentColor\" stroke-opacity=\".45\" fill=\"none\"/>\n",
                frame.left, frame.bottom, frame.right) +
         labels;
}

std::string line_path(const Series& series, const Frame& frame) {
  std::string path;
  bool pen_down = false;
  for (size_t i = 0; i < series.x.size(); ++i) {
    if (!std::isfinite(series.y[i])) {
      pen_down = false;
      continue;
    }
    const double x = frame.at_x(series.x[i]), y = frame.at_y(series.y[i]);
    // A point alone between gaps is a line of no length, which round caps show as a dot.
    path += format("{}{:.1f} {:.1f}{}", pen_down ? "L" : "M", x, y, pen_down ? "" : "h0");
    pen_down = true;
  }
  return path;
}

std::string markers(const Series& series, const Frame& frame, size_t index) {
  std::string out;
  for (size_t i = 0; i < series.x.size(); ++i) {
    if (!std::isfinite(series.y[i])) continue;
    const double x = frame.at_x(series.x[i]), y = frame.at_y(series.y[i]);
    const std::string& name = series.points.empty() ? series.name : series.points[i].name;
    out += format("<circle {} cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{}</title></circle>\n", fill_of(index), x, y,
                  escaped(format("{}{}{:g}, {:g}", name, name.empty() ? "" : ": ", series.x[i], series.y[i])));
    if (series.points.empty() || !series.points[i].beside) continue;
    const bool left = x + 8 + static_cast<double>(characters(name)) * kCharacter > frame.right;
    out += text(left ? x - 7 : x + 7, y + 4, left ? "opacity=\".75\" text-anchor=\"end\"" : "opacity=\".75\"", name);
  }
  return out;
}

std::string lines(const std::vector<Series>& all, const Frame& frame) {
  std::string out;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].points.empty()) {
      out += markers(all[i], frame, i);
      continue;
    }
    const double width = all[i].x.size() > 300 ? 1.4 : 2;
    out += format("<path {} stroke-width=\"{}\" d=\"{}\"/>\n", stroke_of(i), width, line_path(all[i], frame));
    if (all[i].x.size() <= kMostMarkers) out += markers(all[i], frame, i);
  }
  return out;
}

std::string opening(const Plot& plot) {
  const std::string name = escaped(plot.title.empty() ? "plot" : plot.title);
  return format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"hplot\" role=\"img\" aria-label=\"{0}\" viewBox=\"0 0 "
             "{1} {2}\" "
             "width=\"{1}\" height=\"{2}\" style=\"max-width:100%;height:auto\" font-family=\"system-ui,sans-serif\" "
             "font-size=\"12\">\n",
             name, plot.width, plot.height) +
         styles();
}

}  // namespace

std::string svg(const Plot& plot) {
  std::vector<Series> all;
  Bounds x, y;
  for (const Series& series : plot.series) {
    all.push_back(thinned(with_gaps(series, plot), kMostPoints));
    for (size_t i = 0; i < all.back().x.size(); ++i) {
      if (!std::isfinite(all.back().y[i])) continue;
      x.add(all.back().x[i]);
      y.add(all.back().y[i]);
    }
  }
  std::string out = opening(plot);
  double top = 0;
  out += heading(plot, top);
  if (x.empty()) {
    out += text(plot.width / 2.0, plot.height / 2.0, "opacity=\".65\" text-anchor=\"middle\"", "no points to show");
    return out + "</svg>\n";
  }
  out += legend(plot, top);
  Frame frame{0, plot.width - 18.0, top + 14, plot.height - (plot.x_label.empty() ? 28.0 : 46.0), {}, {}};
  frame.bottom = std::max(frame.bottom, frame.top + 20);
  frame.y = make_axis(y.low, y.high, plot.log_y, std::max(2, static_cast<int>((frame.bottom - frame.top) / 38)), true);
  frame.left = 12 + widest_label(frame.y) + 8;
  frame.right = std::max(frame.right, frame.left + 20);
  frame.x = make_axis(x.low, x.high, plot.log_x, std::max(2, static_cast<int>((frame.right - frame.left) / 80)), false);
  const std::vector<double> places = few_places(all);
  if (plot.log_x && places.size() > 1) tick_at(frame.x, places);
  out += grid(frame) + lines(all, frame);
  if (!plot.x_label.empty()) {
    out +=
        text((frame.left + frame.right) / 2, plot.height - 8.0, "opacity=\".65\" text-anchor=\"middle\"", plot.x_label);
  }
  return out + "</svg>\n";
}

}  // namespace hyperion::report
