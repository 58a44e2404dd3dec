#include "hyperion/report/timeline.h"

#include <algorithm>
#include <iterator>

#include "hyperion/base/format.h"
#include "hyperion/report/markup.h"

namespace hyperion::report {
namespace {

using base::format;

constexpr const char* kBoxColors[] = {"#56B4E9", "#0072B2", "#7FC97F", "#009E73", "#E8A33D", "#B5629A"};
constexpr double kLetter = 6.7, kRowHeight = 26, kBoxHeight = 20, kEdge = 12;

const char* box_color(int color) { return kBoxColors[static_cast<size_t>(std::max(0, color)) % std::size(kBoxColors)]; }

std::string box_svg(const TimelineBox& box, double x, double y, double width) {
  std::string out = format(
      "<g><title>{}</title><rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\" "
      "fill=\"{}\" stroke=\"#fff\" stroke-width=\".5\"/>",
      escaped(box.hint), x, y, width, kBoxHeight, box_color(box.color));
  if (static_cast<double>(characters(box.label)) * kLetter < width)
    out += svg_text(x + width / 2, y + 14, "text-anchor=\"middle\" fill=\"#000\"", box.label);
  return out + "</g>\n";
}

}  // namespace

std::string timeline_svg(const std::string& title, const std::vector<TimelineRow>& rows,
                         const std::vector<TimelineKind>& legend, int width) {
  size_t longest = 0;
  double end = 0;
  for (const auto& row : rows) {
    longest = std::max(longest, characters(row.name));
    for (const auto& box : row.boxes) end = std::max(end, box.end);
  }
  const double left = kEdge + static_cast<double>(longest) * kLetter + 8, room = std::max(40.0, width - left - kEdge);
  double y = 26;
  std::string body = svg_text(kEdge, y, "font-size=\"15\" font-weight=\"600\"", title);
  y += 12;
  for (const auto& row : rows) {
    body += svg_text(left - 8, y + 14, "text-anchor=\"end\" opacity=\".85\"", row.name);
    for (const auto& box : row.boxes)
      if (end > 0) body += box_svg(box, left + room * box.begin / end, y, room * (box.end - box.begin) / end);
    y += kRowHeight;
  }
  double x = left;
  for (const auto& kind : legend) {
    body += format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n", x, y + 4,
                   box_color(kind.color));
    body += svg_text(x + 17, y + 14, "", kind.name);
    x += 17 + static_cast<double>(characters(kind.name)) * kLetter + 18;
  }
  return svg_element(width, y + 18 + kEdge, body);
}

}  // namespace hyperion::report
