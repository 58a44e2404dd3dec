#include "hyperion/analysis/critical_path.h"

#include <algorithm>
#include <unordered_map>

#include "hyperion/base/format.h"

namespace hyperion::analysis {
namespace {

PathSegment segment_of(const JobGraph& graph, uint32_t moment, uint32_t source, const std::vector<int64_t>& times) {
  const auto at = graph.place(moment);
  const auto& piece = graph.piece(at);
  PathSegment segment{at.rank, at.piece, source == kNoMoment ? 0 : times[source], times[moment], piece.kind, !at.end};
  if (segment.before) {
    const bool device = graph.job().ranks[at.rank].lanes[piece.lane].device;
    segment.kind = device ? PieceKind::wait : PieceKind::host;
  }
  return segment;
}

bool continues(const PathSegment& later, const PathSegment& earlier) {
  return later.rank == earlier.rank && later.piece == earlier.piece && later.before == earlier.before;
}

class SumsByName {
 public:
  void add(const std::string& name, int64_t time) {
    auto& sum = sums_[name];
    sum.time += time;
    ++sum.segments;
  }
  std::vector<PathSum> take() {
    std::vector<PathSum> all;
    for (auto& [name, sum] : sums_) all.push_back({name, sum.time, sum.segments});
    std::sort(all.begin(), all.end(),
              [](const PathSum& a, const PathSum& b) { return a.time != b.time ? a.time > b.time : a.name < b.name; });
    return all;
  }

 private:
  std::unordered_map<std::string, PathSum> sums_;
};

}  // namespace

CriticalPath critical_path(const JobGraph& graph) {
  CriticalPath path;
  const auto times = graph.replay(graph.delays());
  if (times.empty()) return path;
  auto moment = static_cast<uint32_t>(std::max_element(times.begin(), times.end()) - times.begin());
  while (moment != kNoMoment) {
    const auto source = graph.last_source(moment, times);
    // The first has none before it: from the job's begin on.
    if (!graph.place(moment).all_begun && (source == kNoMoment ? 0 : times[source]) < times[moment]) {
      const auto segment = segment_of(graph, moment, source, times);
      if (!path.segments.empty() && continues(path.segments.back(), segment))
        path.segments.back().begin = segment.begin;
      else
        path.segments.push_back(segment);
    }
    moment = source;
  }
  std::reverse(path.segments.begin(), path.segments.end());
  return path;
}

std::string segment_name(const Job& job, const PathSegment& segment) {
  const auto& rank = job.ranks[segment.rank];
  const auto& piece = rank.pieces[segment.piece];
  const std::string name(rank.names[piece.name]);
  if (!segment.before) return name;
  return rank.lanes[piece.lane].device ? base::format("before {}", name) : "between what the host recorded";
}

PathSums sums_of(const Job& job, const CriticalPath& path) {
  PathSums sums;
  sums.by_rank.resize(job.ranks.size());
  SumsByName names, layers;
  for (const auto& segment : path.segments) {
    const int64_t time = segment.end - segment.begin;
    sums.by_kind[static_cast<size_t>(segment.kind)] += time;
    sums.by_rank[segment.rank] += time;
    names.add(segment_name(job, segment), time);
    const auto& rank = job.ranks[segment.rank];
    const auto layer = rank.pieces[segment.piece].layer;
    if (layer != trace::kNoString) layers.add(std::string(rank.names[layer]), time);
  }
  sums.by_name = names.take();
  sums.by_layer = layers.take();
  return sums;
}

}  // namespace hyperion::analysis
