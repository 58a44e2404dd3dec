#include "hyperion/analysis/job.h"

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::analysis {
namespace {

std::vector<const RankCollectives*> collectives_by_rank(const std::vector<Timeline>& ranks) {
  std::vector<const RankCollectives*> all;
  for (const auto& rank : ranks) all.push_back(&rank.collectives);
  return all;
}

void move_clock(Timeline& rank, int64_t offset) {
  for (auto& piece : rank.pieces) piece.begin -= offset, piece.end -= offset;
  for (auto& mark : rank.marks) mark.begin -= offset, mark.end -= offset;
  for (auto& collective : rank.collectives.all) collective.begin -= offset, collective.end -= offset;
}

}  // namespace

int64_t Job::steps() const {
  int64_t most = 1;
  for (const auto& rank : ranks) most = std::max(most, rank.steps);
  return most;
}

Job make_job(std::vector<Timeline> ranks) {
  Job job;
  job.ranks = std::move(ranks);
  std::stable_sort(job.ranks.begin(), job.ranks.end(),
                   [](const Timeline& a, const Timeline& b) { return a.rank < b.rank; });
  for (size_t i = 0; i < job.ranks.size(); ++i) {
    const auto& rank = job.ranks[i];
    if (i > 0 && rank.rank == job.ranks[i - 1].rank)
      throw base::CorruptError(
          base::format("{} and {} are both of rank {}", job.ranks[i - 1].path, rank.path, rank.rank),
          "name one file of each rank, all of one recording");
    if (rank.pieces.empty())
      throw base::ConfigError(base::format("{} has no kernel, operator or span that lasts", rank.path),
                              "record the host's operators or the device's kernels, or leave this file out");
  }
  const auto collectives = collectives_by_rank(job.ranks);
  job.collectives = match_collectives(collectives);
  job.clocks = clock_offsets(collectives, job.collectives);
  for (size_t i = 0; i < job.ranks.size(); ++i) move_clock(job.ranks[i], job.clocks[i].nanoseconds);
  return job;
}

JobGraph::JobGraph(const Job& job) : job_(job) {
  size_t pieces = 0;
  for (const auto& rank : job.ranks) {
    first_.push_back(static_cast<uint32_t>(pieces));
    pieces += rank.pieces.size();
    if (2 * pieces + job.collectives.matched.size() >= kNoMoment)
      throw base::ConfigError(base::format("the traces up to rank {} have more than 2,147,483,647 pieces", rank.rank),
                              "record fewer steps, or name fewer ranks");
  }
  first_.push_back(static_cast<uint32_t>(pieces));
  begin_ = INT64_MAX;
  for (const auto& rank : job.ranks)
    for (const auto& piece : rank.pieces) begin_ = std::min(begin_, piece.begin);
  number_collectives();
  make_order();
  delays_.resize(position_.size());
  std::vector<int64_t> times(position_.size());
  for (const auto moment : order_) {
    int64_t ready = 0;
    times[moment] = INT64_MIN;
    for_each_source(moment, [&](uint32_t source) { times[moment] = std::max(times[moment], times[source]); });
    if (times[moment] != INT64_MIN) ready = times[moment];
    if (place(moment).all_begun) continue;
    times[moment] = std::max(ready, observed(moment));
    delays_[moment] = times[moment] - ready;
  }
}

void JobGraph::number_collectives() {
  collective_.assign(first_.back(), kNoCollective);
  std::vector<std::vector<uint32_t>> pieces(job_.ranks.size());  // by rank and number of its collective
  for (size_t rank = 0; rank < pieces.size(); ++rank) {
    const auto& timeline = job_.ranks[rank];
    pieces[rank].assign(timeline.collectives.all.size(), kNoPiece);
    for (uint32_t i = 0; i < timeline.pieces.size(); ++i)
      if (timeline.pieces[i].collective != kNoPiece) pieces[rank][timeline.pieces[i].collective] = i;
  }
  partner_.assign(first_.back(), kNoMoment);
  const auto join = [&](Member waiting, Member with) {
    const auto own = pieces[waiting.rank][waiting.index], other = pieces[with.rank][with.index];
    if (own == kNoPiece || other == kNoPiece) return;
    const auto &rank = job_.ranks[waiting.rank], &partner = job_.ranks[with.rank];
    // What is sent may be gone before anybody asks for it.
    const bool sends = rank.collectives.all[waiting.index].kind == CollectiveKind::send;
    if (sends && partner.pieces[other].begin > rank.pieces[own].end) return;
    partner_[first_[waiting.rank] + own] = moment(with.rank, begin_of(other));
  };
  for (const auto& one : job_.collectives.matched) {
    if (one.kind == CollectiveKind::send) join(one.members[0], one.members[1]), join(one.members[1], one.members[0]);
    if (!waits_for_all(one.kind)) continue;
    std::vector<uint32_t> begins;
    for (const auto& member : one.members) {
      const auto piece = pieces[member.rank][member.index];
      if (piece == kNoPiece) continue;
      collective_[first_[member.rank] + piece] = static_cast<uint32_t>(members_.size());
      begins.push_back(moment(member.rank, begin_of(piece)));
    }
    members_.push_back(std::move(begins));
  }
}

JobGraph::Place JobGraph::place(uint32_t moment) const {
  const uint32_t piece = moment / 2;
  if (piece >= first_.back()) return {0, 0, false, true};
  const auto after = std::upper_bound(first_.begin(), first_.end(), piece);
  const auto rank = static_cast<uint32_t>(after - first_.begin() - 1);
  return {rank, piece - first_[rank], moment % 2 == 1, false};
}

int64_t JobGraph::observed(uint32_t moment) const {
  const auto at = place(moment);
  return (at.end ? piece(at).end : piece(at).begin) - begin_;
}

bool JobGraph::is_matched_end(uint32_t moment) const {
  if (moment % 2 == 0 || moment / 2 >= first_.back()) return false;
  return collective_[moment / 2] != kNoCollective || partner_[moment / 2] != kNoMoment;
}

uint32_t JobGraph::source_count(uint32_t moment) const {
  const uint32_t collective = moment - 2 * first_.back();
  return moment < 2 * first_.back() ? 3 : static_cast<uint32_t>(members_[collective].size());
}

uint32_t JobGraph::source(uint32_t moment, uint32_t number) const {
  if (moment >= 2 * first_.back()) return members_[moment - 2 * first_.back()][number];
  const auto at = place(moment);
  const auto& own = piece(at);
  const auto of_rank = [&](uint32_t local) { return local == kNoMoment ? kNoMoment : this->moment(at.rank, local); };
  if (at.end) {
    if (number == 0) return moment - 1;
    if (number == 1) return of_rank(own.until);
    const auto collective = collective_[moment / 2];
    return collective == kNoCollective ? partner_[moment / 2] : 2 * first_.back() + collective;
  }
  if (number == 1) return of_rank(own.launched);
  if (number == 2) return of_rank(own.after);
  return at.piece > job_.ranks[at.rank].lanes[own.lane].first ? moment - 1 : kNoMoment;
}

template <class Visit>
void JobGraph::for_each_source(uint32_t moment, const Visit& visit) const {
  const uint32_t count = source_count(moment);
  for (uint32_t number = 0; number < count; ++number) {
    const auto found = source(moment, number);
    if (found != kNoMoment && position_[found] < position_[moment]) visit(found);
  }
}

// Depth first, without recursion: sources before what waits for them.
void JobGraph::make_order() {
  const auto count = 2 * size_t{first_.back()} + members_.size();
  enum : uint8_t { kNew, kOpen, kDone };
  std::vector<uint8_t> states(count, kNew);
  position_.assign(count, UINT32_MAX);
  order_.reserve(count);
  struct Visit {
    uint32_t moment, next;
  };
  std::vector<Visit> open;
  for (uint32_t start = 0; start < count; ++start) {
    if (states[start] != kNew) continue;
    open.push_back({start, 0});
    states[start] = kOpen;
    while (!open.empty()) {
      auto& [moment, next] = open.back();
      if (next == source_count(moment)) {
        states[moment] = kDone;
        position_[moment] = static_cast<uint32_t>(order_.size());
        order_.push_back(moment);
        open.pop_back();
        continue;
      }
      const auto found = source(moment, next++);
      if (found == kNoMoment || states[found] != kNew) continue;
      states[found] = kOpen;
      open.push_back({found, 0});
    }
  }
}

bool JobGraph::waits(uint32_t moment) const {
  bool any = false;
  for_each_source(moment, [&](uint32_t) { any = true; });
  return any;
}

std::vector<int64_t> JobGraph::replay(const std::vector<int64_t>& delays) const {
  std::vector<int64_t> times(delays.size());
  for (const auto moment : order_) {
    int64_t ready = INT64_MIN;
    for_each_source(moment, [&](uint32_t source) { ready = std::max(ready, times[source]); });
    times[moment] = (ready == INT64_MIN ? 0 : ready) + delays[moment];
  }
  return times;
}

uint32_t JobGraph::last_source(uint32_t moment, const std::vector<int64_t>& times) const {
  uint32_t last = kNoMoment;
  for_each_source(moment, [&](uint32_t source) {
    if (last == kNoMoment || times[source] >= times[last]) last = source;
  });
  return last;
}

}  // namespace hyperion::analysis
