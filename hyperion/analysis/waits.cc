#include "hyperion/analysis/waits.h"

#include <algorithm>

namespace hyperion::analysis {
namespace {

constexpr int64_t kLaunchCost = 10'000;  // nanoseconds that a kernel may be late without having waited for another
constexpr int64_t kShortWait = 20'000;   // shorter ones of a thread are not looked into

class WaitFinder {
 public:
  explicit WaitFinder(Timeline& timeline) : timeline_(timeline), pieces_(timeline.pieces) {
    for (uint32_t i = 0; i < pieces_.size(); ++i) (lane_of(i).device ? device_ : host_).push_back(i);
    device_by_end_ = device_, host_by_end_ = host_;
    const auto by_begin = [&](uint32_t a, uint32_t b) { return pieces_[a].begin < pieces_[b].begin; };
    const auto by_end = [&](uint32_t a, uint32_t b) { return pieces_[a].end < pieces_[b].end; };
    std::stable_sort(device_.begin(), device_.end(), by_begin);
    std::stable_sort(device_by_end_.begin(), device_by_end_.end(), by_end);
    std::stable_sort(host_by_end_.begin(), host_by_end_.end(), by_end);
  }

  void find() {
    collectives_after_computation();
    kernels_after_other_streams();
    host_until_device();
    threads_until_threads();
    threads_woken();
  }

 private:
  const Lane& lane_of(uint32_t piece) const { return timeline_.lanes[pieces_[piece].lane]; }
  uint32_t before(uint32_t piece) const { return piece > lane_of(piece).first ? piece - 1 : kNoPiece; }

  // NCCL's stream waits for what the host had launched on the others when it asked.
  void collectives_after_computation() {
    std::vector<uint32_t> launched;
    for (const auto i : device_)
      if (pieces_[i].launched != kNoMoment) launched.push_back(i);
    std::stable_sort(launched.begin(), launched.end(), [&](uint32_t a, uint32_t b) {
      return pieces_[pieces_[a].launched / 2].begin < pieces_[pieces_[b].launched / 2].begin;
    });
    uint32_t computed = kNoPiece;
    for (const auto i : launched) {
      if (pieces_[i].kind != PieceKind::communication)
        computed = i;
      else if (computed != kNoPiece && pieces_[computed].end <= pieces_[i].begin)
        pieces_[i].after = end_of(computed);
    }
  }

  // Late, although it was launched and its stream was free: for what ended last on another stream.
  void kernels_after_other_streams() {
    size_t ended = 0;
    for (const auto i : device_) {
      auto& piece = pieces_[i];
      while (ended < device_by_end_.size() && pieces_[device_by_end_[ended]].end <= piece.begin) ++ended;
      if (ended == 0) continue;
      const auto last = device_by_end_[ended - 1];
      int64_t ready = piece.launched == kNoMoment ? INT64_MIN : pieces_[piece.launched / 2].begin;
      if (const auto earlier = before(i); earlier != kNoPiece) ready = std::max(ready, pieces_[earlier].end);
      if (pieces_[last].lane == piece.lane || pieces_[last].end <= ready) continue;
      if (ready == INT64_MIN || piece.begin - ready > kLaunchCost) piece.after = end_of(last);
    }
  }

  // A call that waits ends after the device's work that ended last before it did.
  void host_until_device() {
    for (const auto i : host_) {
      auto& piece = pieces_[i];
      if (piece.name == trace::kNoString || timeline_.names[piece.name].find("ynchronize") == std::string_view::npos)
        continue;
      const auto later = std::upper_bound(device_by_end_.begin(), device_by_end_.end(), piece.end,
                                          [&](int64_t time, uint32_t other) { return time < pieces_[other].end; });
      piece.kind = PieceKind::wait;
      if (later == device_by_end_.begin() || pieces_[later[-1]].end <= piece.begin) continue;
      piece.until = end_of(later[-1]);
    }
    // A copy that the host waited for: it was over before the call was.
    for (const auto i : device_) {
      if (pieces_[i].launched == kNoMoment) continue;
      auto& call = pieces_[pieces_[i].launched / 2];
      if (pieces_[i].end > call.end || timeline_.names[call.name].find("Memcpy") == std::string_view::npos) continue;
      call.until = end_of(i);
      call.kind = PieceKind::wait;
    }
  }

  // Of other threads, what ended last until then: a collective, or the last work of a thread that then had none.
  uint32_t work_ended_until(int64_t from, int64_t to, uint32_t lane, std::string_view operation = {}) const {
    auto later = std::upper_bound(host_by_end_.begin(), host_by_end_.end(), to,
                                  [&](int64_t time, uint32_t other) { return time < pieces_[other].end; });
    // It takes a moment to wake up; where a span says that it waits for another, however long.
    const int64_t near = operation.empty() ? std::max<int64_t>(50'000, (to - from) / 5) : to - from;
    while (later != host_by_end_.begin()) {
      const auto found = *--later;
      const auto& piece = pieces_[found];
      if (piece.end <= from || to - piece.end > near) return kNoPiece;
      if (piece.lane == lane || piece.own_span) continue;
      if (!operation.empty() && !name_of(piece).starts_with(operation)) continue;
      const bool idle_then = found + 1 == lane_of(found).last || pieces_[found + 1].begin >= to;
      if (piece.collective != kNoPiece || idle_then) return found;
    }
    return kNoPiece;
  }

  std::string_view name_of(const Piece& piece) const {
    return piece.name == trace::kNoString ? std::string_view() : timeline_.names[piece.name];
  }
  // "all_reduce" of "wait all_reduce", which the program's spans say.
  std::string_view waited_for(const Piece& piece) const {
    constexpr std::string_view kWait = "wait ";
    const auto name = name_of(piece);
    return name.starts_with(kWait) ? name.substr(kWait.size()) : std::string_view();
  }

  // A thread in which nothing is recorded for a while, or a span's own time alone.
  void threads_until_threads() {
    for (const auto i : host_) {
      auto& piece = pieces_[i];
      const auto earlier = before(i);
      if (earlier != kNoPiece && piece.begin - pieces_[earlier].end >= kShortWait && piece.collective == kNoPiece) {
        const auto work = work_ended_until(pieces_[earlier].end, piece.begin, piece.lane);
        if (work != kNoPiece) piece.after = end_of(work);
      }
      if (!piece.own_span || piece.end - piece.begin < kShortWait) continue;
      const auto work = work_ended_until(piece.begin, piece.end, piece.lane, waited_for(piece));
      if (work == kNoPiece) continue;
      piece.until = end_of(work);
      if (piece.kind != PieceKind::input) piece.kind = PieceKind::wait;
    }
  }

  // What another thread does after a rest it was asked for by the first thread, where that stood then.
  void threads_woken() {
    if (timeline_.lanes.empty() || timeline_.lanes[0].device) return;
    const auto& main = timeline_.lanes[0];
    for (const auto i : host_) {
      auto& piece = pieces_[i];
      if (piece.lane == 0 || piece.after != kNoMoment) continue;
      const auto earlier = before(i);
      if (earlier != kNoPiece && piece.begin - pieces_[earlier].end < kShortWait) continue;
      const auto from = pieces_.begin() + main.first, to = pieces_.begin() + main.last;
      const auto later =
          std::upper_bound(from, to, piece.begin, [](int64_t time, const Piece& other) { return time < other.begin; });
      if (later == from) continue;
      const auto asking = static_cast<uint32_t>(later - 1 - pieces_.begin());
      piece.after = pieces_[asking].end <= piece.begin ? end_of(asking) : begin_of(asking);
    }
  }

  Timeline& timeline_;
  std::vector<Piece>& pieces_;
  std::vector<uint32_t> device_, host_;  // numbers of pieces; the first by begin
  std::vector<uint32_t> device_by_end_, host_by_end_;
};

}  // namespace

void find_waits(Timeline& timeline) { WaitFinder(timeline).find(); }

}  // namespace hyperion::analysis
