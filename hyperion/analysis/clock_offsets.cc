#include "hyperion/analysis/clock_offsets.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>

namespace hyperion::analysis {
namespace {

// What two ranks' clocks say of each other: later's - earlier's.
struct PairTimes {
  std::vector<int64_t> differences;  // of ends
  int64_t least = INT64_MIN, most = INT64_MAX;
};

struct Link {
  uint32_t from = 0, to = 0;
  double difference = 0, spread = 0, weight = 0;  // nanoseconds; of the medians
  int64_t count = 0;
};

int64_t median_of(std::vector<int64_t>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

using Pairs = std::map<std::pair<uint32_t, uint32_t>, PairTimes>;

// Of n ranks n log n pairs: each with those 1, 2, 4, ... places on, so that large groups stay cheap.
Pairs pair_times(const std::vector<const RankCollectives*>& ranks, const JobCollectives& job) {
  Pairs pairs;
  for (const auto& one : job.matched) {
    if (!waits_for_all(one.kind)) continue;
    for (size_t i = 0; i < one.members.size(); ++i)
      for (size_t apart = 1; i + apart < one.members.size(); apart *= 2) {
        const auto &a = one.members[i], &b = one.members[i + apart];
        const auto &first = ranks[a.rank]->all[a.index], &second = ranks[b.rank]->all[b.index];
        auto& pair = pairs[{a.rank, b.rank}];
        pair.differences.push_back(second.end - first.end);
        pair.least = std::max(pair.least, second.begin - first.end);
        pair.most = std::min(pair.most, second.end - first.begin);
      }
  }
  return pairs;
}

std::vector<Link> links_of(Pairs& pairs) {
  std::vector<Link> links;
  for (auto& [ranks, pair] : pairs) {
    Link link{ranks.first, ranks.second, 0, 0, 0, static_cast<int64_t>(pair.differences.size())};
    int64_t middle = median_of(pair.differences);
    if (pair.least <= pair.most) middle = std::clamp(middle, pair.least, pair.most);
    for (auto& difference : pair.differences) difference = std::abs(difference - middle);
    link.difference = static_cast<double>(middle);
    link.spread = static_cast<double>(median_of(pair.differences)) / std::sqrt(static_cast<double>(link.count));
    link.weight = 1 / (link.spread * link.spread + 1e4);  // no better than 100 ns
    links.push_back(link);
  }
  return links;
}

using Neighbours = std::vector<std::vector<std::pair<uint32_t, const Link*>>>;

// Along the most certain links, which gives every rank that can be reached a first offset.
void spread_from_first(const Neighbours& neighbours, std::vector<ClockOffset>& offsets, std::vector<double>& values) {
  struct Step {
    double weight;
    uint32_t rank;
    double value;
    bool operator<(const Step& other) const { return weight < other.weight; }
  };
  std::priority_queue<Step> open;
  open.push({0, 0, 0});
  while (!open.empty()) {
    const auto step = open.top();
    open.pop();
    if (offsets[step.rank].known) continue;
    offsets[step.rank].known = true;
    values[step.rank] = step.value;
    for (const auto& [rank, link] : neighbours[step.rank])
      if (!offsets[rank].known)
        open.push({link->weight, rank, step.value + (link->from == step.rank ? link->difference : -link->difference)});
  }
}

// Each rank where its neighbours put it, by their weights, until none moves.
void settle(const Neighbours& neighbours, std::vector<double>& values) {
  constexpr int kMostRounds = 200;
  for (int round = 0; round < kMostRounds; ++round) {
    double moved = 0;
    for (uint32_t rank = 1; rank < values.size(); ++rank) {
      double sum = 0, weights = 0;
      for (const auto& [other, link] : neighbours[rank]) {
        sum += link->weight * (values[other] + (link->to == rank ? link->difference : -link->difference));
        weights += link->weight;
      }
      if (weights == 0) continue;
      moved = std::max(moved, std::abs(sum / weights - values[rank]));
      values[rank] = sum / weights;
    }
    if (moved < 10) return;
  }
}

}  // namespace

std::vector<ClockOffset> clock_offsets(const std::vector<const RankCollectives*>& ranks, const JobCollectives& job) {
  std::vector<ClockOffset> offsets(ranks.size());
  if (ranks.empty()) return offsets;
  auto pairs = pair_times(ranks, job);
  const auto links = links_of(pairs);
  Neighbours neighbours(ranks.size());
  for (const auto& link : links) {
    neighbours[link.from].emplace_back(link.to, &link);
    neighbours[link.to].emplace_back(link.from, &link);
  }
  std::vector<double> values(ranks.size());
  spread_from_first(neighbours, offsets, values);
  settle(neighbours, values);
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    if (!offsets[rank].known) continue;
    offsets[rank].nanoseconds = std::llround(values[rank]);
    double weights = 0;
    for (const auto& [other, link] : neighbours[rank]) {
      weights += link->weight;
      offsets[rank].collectives += link->count;
    }
    if (rank > 0 && weights > 0) offsets[rank].uncertainty = std::llround(1 / std::sqrt(weights));
  }
  return offsets;
}

}  // namespace hyperion::analysis
