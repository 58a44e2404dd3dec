#include "hyperion/report/bars.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "hyperion/base/format.h"
#include "hyperion/report/markup.h"

namespace hyperion::report {
namespace {

using base::format;

constexpr const char* kBarColors[] = {"#0072B2", "#D55E00", "#009E73", "#B5629A", "#C98A00", "#6B6B6B"};
constexpr double kBarCharacter = 6.7, kBarRow = 22, kMargin = 12;

double widest(const std::vector<BarGroup>& groups, std::string Bar::*member) {
  size_t most = 0;
  for (const auto& group : groups)
    for (const auto& bar : group.bars) most = std::max(most, characters(bar.*member));
  return static_cast<double>(most) * kBarCharacter;
}

bool drawn(const Bar& bar) { return std::isfinite(bar.value) && bar.value >= 0; }

double longest(const std::vector<BarGroup>& groups) {
  double most = 0;
  for (const auto& group : groups)
    for (const auto& bar : group.bars)
      if (drawn(bar)) most = std::max(most, bar.value);
  return most;
}

}  // namespace

std::string bars_svg(const std::string& title, const std::vector<BarGroup>& groups, BarScale scale, int width) {
  const double left = kMargin + widest(groups, &Bar::name) + 8;
  const double room = std::max(40.0, width - left - widest(groups, &Bar::shown) - 8 - kMargin);
  double y = 26;
  std::string body = svg_text(kMargin, y, "font-size=\"15\" font-weight=\"600\"", title);
  for (const auto& group : groups) {
    y += kBarRow + 6;
    body += svg_text(kMargin, y, "font-weight=\"600\"", group.name);
    const double most = scale == BarScale::shared ? longest(groups) : longest({group});
    for (const auto& bar : group.bars) {
      y += kBarRow;
      const double length = drawn(bar) && most > 0 ? std::max(1.0, room * bar.value / most) : 0;
      const char* color = kBarColors[static_cast<size_t>(std::max(0, bar.color)) % std::size(kBarColors)];
      body += svg_text(left - 8, y, "text-anchor=\"end\" opacity=\".85\"", bar.name);
      if (length > 0)
        body += format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"14\" rx=\"2\" fill=\"{}\"/>\n", left,
                       y - 11, length, color);
      body += svg_text(left + length + 8, y, "", bar.shown);
    }
  }
  return svg_element(width, y + kMargin, body);
}

}  // namespace hyperion::report
