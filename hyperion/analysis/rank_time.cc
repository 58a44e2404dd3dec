#include "hyperion/analysis/rank_time.h"

#include <numeric>

namespace hyperion::analysis {
namespace {

constexpr std::string_view kPartTexts[kTimeParts] = {
    "compute",         "compute and communication", "communication alone", "copies and fills alone", "waits", "input",
    "idle: host wait", "idle: kernel wait",         "idle: other"};

TimePart part_of(PieceKind kind) {
  switch (kind) {
    case PieceKind::communication:
      return TimePart::exposed;
    case PieceKind::wait:
      return TimePart::wait;
    case PieceKind::input:
      return TimePart::input;
    case PieceKind::compute:
    case PieceKind::host:
      break;
  }
  return TimePart::compute;
}

}  // namespace

std::string_view part_text(TimePart part) { return kPartTexts[static_cast<size_t>(part)]; }

int64_t RankTime::total() const { return std::accumulate(times.begin(), times.end(), int64_t{0}); }

double RankTime::percent(TimePart part) const {
  const int64_t all = total();
  return all == 0 ? 0 : 100 * static_cast<double>(at(part)) / static_cast<double>(all);
}

RankTime rank_time(const RankAnalysis& rank) {
  RankTime made{.rank = rank.rank, .steps = rank.steps};
  const auto& by = rank.times.by_kinds;
  const auto set = [&](TimePart part, int64_t time) { made.times[static_cast<size_t>(part)] = time; };
  set(TimePart::compute, by[1] + by[5]);
  set(TimePart::overlapped, by[3] + by[7]);
  set(TimePart::exposed, by[2] + by[6]);
  set(TimePart::memory, by[4]);
  set(TimePart::wait, rank.times.non_compute - by[2] - by[6] - by[4]);
  set(TimePart::host_wait, rank.device_idle.host_wait);
  set(TimePart::kernel_wait, rank.device_idle.kernel_wait);
  set(TimePart::idle, rank.device_idle.other);
  return made;
}

RankTime rank_time(const Timeline& timeline) {
  RankTime made{.rank = timeline.rank, .steps = timeline.steps, .on_device = false};
  if (timeline.lanes.empty()) return made;
  const auto& lane = timeline.lanes.front();
  int64_t last = INT64_MIN;
  for (uint32_t i = lane.first; i < lane.last; ++i) {
    const auto& piece = timeline.pieces[i];
    made.times[static_cast<size_t>(part_of(piece.kind))] += piece.end - piece.begin;
    if (last != INT64_MIN) made.times[static_cast<size_t>(TimePart::idle)] += piece.begin - last;
    last = piece.end;
  }
  return made;
}

}  // namespace hyperion::analysis
