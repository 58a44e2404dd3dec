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

struct TimelineLook {
  int width = 960;
  double row_height = 26;
  bool outlined = true;   // boxes; not where they are many
  bool ground = false;    // under boxes, so that empty time is seen as a part of the row
  std::string unit = {};  // of an axis below the rows; empty: none
};

// One <svg> element, as high as it needs to be. Times are in any unit, from 0.
std::string timeline_svg(const std::string& title, const std::vector<TimelineRow>& rows,
                         const std::vector<TimelineKind>& legend, const TimelineLook& look = {});

}  // namespace hyperion::report
