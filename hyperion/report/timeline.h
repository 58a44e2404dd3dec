// Who did what when, as SVG text: a row for each of some names, a box for each thing done.
#pragma once
#include <string>
#include <vector>

namespace hyperion::report {

struct TimelineBox {
  double begin, end;
  int color = 0;      // things of one kind share one
  std::string label;  // shown where there is room
  std::string hint;   // shown to who points at it
};

struct TimelineRow {
  std::string name;
  std::vector<TimelineBox> boxes;
};

struct TimelineKind {
  std::string name;
  int color = 0;
};

// One <svg> element, as high as it needs to be. Times are in any unit, from 0.
std::string timeline_svg(const std::string& title, const std::vector<TimelineRow>& rows,
                         const std::vector<TimelineKind>& legend, int width = 960);

}  // namespace hyperion::report
