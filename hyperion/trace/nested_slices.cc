#include "hyperion/trace/nested_slices.h"

#include <algorithm>
#include <tuple>

namespace hyperion::trace {
namespace {

class Lane {
 public:
  bool takes(const LastingEvent& event) {
    close_until(event.begin);
    if (!open_.empty() && open_.back().end < event.end) return false;
    open_.push_back(event);
    marks_.push_back({event.begin, event.event, true});
    return true;
  }
  std::vector<SliceMark> finish() && {
    close_until(INT64_MAX);
    return std::move(marks_);
  }

 private:
  void close_until(int64_t time) {
    for (; !open_.empty() && open_.back().end <= time; open_.pop_back())
      marks_.push_back({open_.back().end, open_.back().event, false});
  }
  std::vector<LastingEvent> open_;
  std::vector<SliceMark> marks_;
};

}  // namespace

std::vector<std::vector<SliceMark>> nested_lanes(std::vector<LastingEvent> events) {
  std::sort(events.begin(), events.end(), [](const LastingEvent& a, const LastingEvent& b) {
    return std::tuple(a.begin, -a.end, a.event) < std::tuple(b.begin, -b.end, b.event);
  });
  std::vector<Lane> lanes;
  for (const auto& event : events) {
    const bool taken = std::any_of(lanes.begin(), lanes.end(), [&](Lane& lane) { return lane.takes(event); });
    if (!taken) lanes.emplace_back().takes(event);
  }
  std::vector<std::vector<SliceMark>> marks;
  for (auto& lane : lanes) marks.push_back(std::move(lane).finish());
  return marks;
}

}  // namespace hyperion::trace
