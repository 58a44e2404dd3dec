#include "hyperion/analysis/step_lanes.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "hyperion/analysis/device_work.h"

namespace hyperion::analysis {
namespace {

constexpr std::string_view kBoxTexts[kBoxKinds] = {"compute", "communication", "copies and fills",
                                                   "host",    "waits",         "input"};
constexpr int64_t kMostCells = 900;  // a picture is about as many dots wide

// Of the steps but the last, whose end may be missing, the one with the median time; kNone: there are none.
int64_t median_step(std::vector<ProfilerStep> marks) {
  if (marks.empty()) return trace::kNone;
  if (marks.size() > 1) marks.pop_back();
  const auto middle = marks.begin() + (std::ssize(marks) - 1) / 2;
  std::nth_element(marks.begin(), middle, marks.end(), [](const ProfilerStep& a, const ProfilerStep& b) {
    return a.end - a.begin != b.end - b.begin ? a.end - a.begin < b.end - b.begin : a.begin < b.begin;
  });
  return middle->number;
}

// Of one rank: the step of this number, or all that it did; nothing where it has no such step.
Interval time_of_step(const Timeline& rank, int64_t number) {
  Interval time{INT64_MAX, INT64_MIN};
  const auto take_in = [&](const auto& part) {
    time.begin = std::min(time.begin, part.begin), time.end = std::max(time.end, part.end);
  };
  if (number == trace::kNone) {
    for (const auto& piece : rank.pieces) take_in(piece);
  } else {
    for (const auto& mark : rank.marks)
      if (mark.number == number) take_in(mark);
  }
  return time;
}

void choose_times(const Job& job, StepLanes& found) {
  found.number = median_step(job.ranks.front().marks);
  Interval all{INT64_MAX, INT64_MIN}, common{INT64_MIN, INT64_MAX};
  for (const auto& rank : job.ranks) {
    const auto time = time_of_step(rank, found.number);
    found.times.push_back(time);
    if (time.begin >= time.end) continue;
    all = {std::min(all.begin, time.begin), std::max(all.end, time.end)};
    common = {std::max(common.begin, time.begin), std::min(common.end, time.end)};
    found.length = std::max(found.length, time.end - time.begin);
  }
  found.apart = common.begin >= common.end;
  if (found.apart || all.begin >= all.end) return;
  found.length = all.end - all.begin;
  for (auto& time : found.times) time = all;
}

// A lane's pieces of the step.
struct Drawn {
  uint32_t rank = 0, lane = 0, first = 0, last = 0;  // pieces: first <= i < last
  int64_t busy = 0;
};

std::vector<Drawn> lanes_of_step(const Job& job, const StepLanes& step) {
  std::vector<Drawn> all;
  for (uint32_t r = 0; r < job.ranks.size(); ++r) {
    const auto& rank = job.ranks[r];
    const auto& time = step.times[r];
    for (uint32_t l = 0; time.begin < time.end && l < rank.lanes.size(); ++l) {
      const auto from = rank.pieces.begin() + rank.lanes[l].first, to = rank.pieces.begin() + rank.lanes[l].last;
      const auto first = std::partition_point(from, to, [&](const Piece& piece) { return piece.end <= time.begin; });
      const auto last = std::partition_point(first, to, [&](const Piece& piece) { return piece.begin < time.end; });
      Drawn drawn{r, l, static_cast<uint32_t>(first - rank.pieces.begin()),
                  static_cast<uint32_t>(last - rank.pieces.begin()), 0};
      for (auto piece = first; piece != last; ++piece)
        drawn.busy += std::min(piece->end, time.end) - std::max(piece->begin, time.begin);
      if (drawn.busy > 0) all.push_back(drawn);
    }
  }
  return all;
}

// As many of each rank, its busiest ones.
void leave_out(std::vector<Drawn>& all, size_t ranks, size_t most) {
  if (all.size() <= most) return;
  const size_t each = std::max<size_t>(1, most / std::max<size_t>(ranks, 1));
  std::vector<Drawn> kept;
  for (size_t i = 0; i < all.size() && kept.size() < most;) {
    size_t end = i;
    while (end < all.size() && all[end].rank == all[i].rank) ++end;
    const auto at = [&](size_t place) { return all.begin() + static_cast<std::ptrdiff_t>(place); };
    const size_t taken = std::min(each, end - i);
    std::partial_sort(at(i), at(i + taken), at(end), [](const Drawn& a, const Drawn& b) { return a.busy > b.busy; });
    std::sort(at(i), at(i + taken), [](const Drawn& a, const Drawn& b) { return a.lane < b.lane; });
    kept.insert(kept.end(), at(i), at(i + taken));
    i = end;
  }
  all = std::move(kept);
}

BoxKind kind_of(PieceKind kind) {
  switch (kind) {
    case PieceKind::compute:
      return BoxKind::compute;
    case PieceKind::communication:
      return BoxKind::communication;
    case PieceKind::wait:
      return BoxKind::wait;
    case PieceKind::input:
      return BoxKind::input;
    case PieceKind::host:
      break;
  }
  return BoxKind::host;
}

// Puts what is shorter than a cell together with what begins in the same cell.
class BoxMaker {
 public:
  BoxMaker(int64_t cell, std::vector<LaneBox>& boxes) : cell_(cell), boxes_(boxes) {}

  void add(const LaneBox& box) {
    const int64_t length = box.end - box.begin;
    const bool seen = length >= cell_;
    if (seen || box.begin / cell_ != place_) close();
    if (seen) {
      boxes_.push_back(box);
      return;
    }
    if (begin_ < 0) begin_ = box.begin, place_ = box.begin / cell_;
    auto& sum = sums_[static_cast<size_t>(box.kind)];
    sum.time += length, ++sum.pieces;
    if (length > sum.longest) sum.longest = length, sum.name = box.name;
  }
  void close() {
    for (size_t kind = 0; kind < kBoxKinds && begin_ >= 0; ++kind) {
      const auto& sum = sums_[kind];
      if (sum.time == 0) continue;
      boxes_.push_back({begin_, begin_ + sum.time, static_cast<BoxKind>(kind), sum.name, sum.pieces});
      begin_ += sum.time;
    }
    sums_ = {}, begin_ = place_ = -1;
  }

 private:
  struct Sum {
    int64_t time = 0, longest = 0, pieces = 0;
    uint32_t name = trace::kNoString;
  };
  int64_t cell_, begin_ = -1, place_ = -1;  // where the first of the open cell begins; its number
  std::array<Sum, kBoxKinds> sums_;
  std::vector<LaneBox>& boxes_;
};

std::vector<LaneBox> boxes_of(const Timeline& rank, const std::vector<WorkKind>& kinds, const Drawn& drawn,
                              const Interval& time, int64_t cell) {
  std::vector<LaneBox> boxes;
  BoxMaker maker(cell, boxes);
  for (uint32_t i = drawn.first; i < drawn.last; ++i) {
    const auto& piece = rank.pieces[i];
    const bool memory = rank.lanes[drawn.lane].device && piece.kind == PieceKind::compute &&
                        piece.name != trace::kNoString && kinds[piece.name] == WorkKind::memory;
    const LaneBox box{std::max(piece.begin, time.begin) - time.begin, std::min(piece.end, time.end) - time.begin,
                      memory ? BoxKind::memory : kind_of(piece.kind), piece.name, 1};
    if (box.end > box.begin) maker.add(box);
  }
  maker.close();
  return boxes;
}

}  // namespace

std::string_view box_text(BoxKind kind) { return kBoxTexts[static_cast<size_t>(kind)]; }

StepLanes step_lanes(const Job& job, size_t most_boxes, size_t most_lanes) {
  StepLanes found;
  if (job.ranks.empty()) return found;
  choose_times(job, found);
  auto drawn = lanes_of_step(job, found);
  const size_t all = drawn.size();
  leave_out(drawn, job.ranks.size(), most_lanes);
  found.left_out = all - drawn.size();
  std::vector<std::vector<WorkKind>> kinds;
  for (const auto& rank : job.ranks) {
    kinds.emplace_back();
    for (uint32_t id = 0; id < rank.names.size(); ++id) kinds.back().push_back(work_kind(rank.names[id]));
  }
  for (const auto& lane : drawn) found.lanes.push_back({lane.rank, job.ranks[lane.rank].lanes[lane.lane].name, {}});
  for (int64_t cells = kMostCells; cells > 0; cells /= 2) {
    const int64_t cell = std::max<int64_t>(1, found.length / cells);
    size_t boxes = 0;
    for (size_t i = 0; i < drawn.size(); ++i) {
      found.lanes[i].boxes =
          boxes_of(job.ranks[drawn[i].rank], kinds[drawn[i].rank], drawn[i], found.times[drawn[i].rank], cell);
      boxes += found.lanes[i].boxes.size();
    }
    if (boxes <= most_boxes) break;
  }
  return found;
}

}  // namespace hyperion::analysis
