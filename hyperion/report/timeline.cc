#include "hyperion/report/timeline.h"

#include <algorithm>
#include <iterator>

#include "hyperion/base/format.h"
#include "hyperion/report/axis.h"
#include "hyperion/report/markup.h"

namespace hyperion::report {
namespace {

using base::format;

constexpr const char* kBoxColors[] = {"#56B4E9", "#0072B2", "#7FC97F", "#009E73", "#E8A33D",
                                      "#B5629A", "#D55E00", "#C9CDD2", "#8B9199", "#F0E442"};
constexpr double kLetter = 6.7, kBetween = 6, kEdge = 12;  // kBetween: of two rows' boxes

const char* box_color(int color) { return kBoxColors[static_cast<size_t>(std::max(0, color)) % std::size(kBoxColors)]; }

std::string box_svg(const TimelineBox& box, double x, double y, double width, const TimelineLook& look) {
  const double height = look.row_height - kBetween;
  const auto title = box.hint.empty() ? std::string() : format("<title>{}</title>", escaped(box.hint));
  auto out =
      format("<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\"{}>{}</rect>\n", x, y,
             width, height, box_color(box.color), look.outlined ? " stroke=\"#fff\" stroke-width=\".5\"" : "", title);
  if (!box.label.empty() && static_cast<double>(characters(box.label)) * kLetter + 2 < width)
    out += svg_text(x + width / 2, y + height / 2 + 4, "text-anchor=\"middle\" fill=\"#000\" pointer-events=\"none\"",
                    box.label);
  return out;
}

std::string axis_svg(double left, double room, double y, double end, const std::string& unit) {
  Axis axis = make_axis(0, end, false, 8, false);
  std::string out;
  for (const auto& tick : axis.ticks) {
    const double x = left + room * tick.value / end;
    if (x > left + room + 1) continue;
    out += format("<path d=\"M{:.1f} {:.1f}v5\" stroke=\"currentColor\" opacity=\".5\"/>\n", x, y);
    out += svg_text(x, y + 18, "text-anchor=\"middle\" opacity=\".85\"", tick.label);
  }
  return out + svg_text(left - 8, y + 18, "text-anchor=\"end\" opacity=\".85\"", unit);
}

}  // namespace

std::string timeline_svg(const std::string& title, const std::vector<TimelineRow>& rows,
                         const std::vector<TimelineKind>& legend, const TimelineLook& look) {
  size_t longest = 0;
  double end = 0;
  for (const auto& row : rows) {
    longest = std::max(longest, characters(row.name));
    for (const auto& box : row.boxes) end = std::max(end, box.end);
  }
  const double left = kEdge + static_cast<double>(longest) * kLetter + 8;
  const double room = std::max(40.0, look.width - left - kEdge);
  double y = 26;
  std::string body = svg_text(kEdge, y, "font-size=\"15\" font-weight=\"600\"", title);
  y += 12;
  for (const auto& row : rows) {
    body +=
        svg_text(left - 8, y + (look.row_height - kBetween) / 2 + 4, "text-anchor=\"end\" opacity=\".85\"", row.name);
    if (look.ground)
      body += format("<path d=\"M{:.1f} {:.1f}h{:.1f}v{:.0f}h-{:.1f}z\" opacity=\".08\"/>\n", left, y, room,
                     look.row_height - kBetween, room);
    for (const auto& box : row.boxes)
      if (end > 0) body += box_svg(box, left + room * box.begin / end, y, room * (box.end - box.begin) / end, look);
    y += look.row_height;
  }
  if (!look.unit.empty() && end > 0) {
    body += axis_svg(left, room, y, end, look.unit);
    y += 26;
  }
  double x = left;
  for (const auto& kind : legend) {
    const double wide = 17 + static_cast<double>(characters(kind.name)) * kLetter + 18;
    if (x > left && x + wide > look.width) x = left, y += 20;
    body += format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n", x, y + 4,
                   box_color(kind.color));
    body += svg_text(x + 17, y + 14, "", kind.name);
    x += wide;
  }
  return svg_element(look.width, y + 18 + kEdge, body);
}

}  // namespace hyperion::report
