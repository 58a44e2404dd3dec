#include "hyperion/analysis/host_lanes.h"

#include <algorithm>
#include <map>

#include "hyperion/analysis/collectives.h"
#include "hyperion/base/format.h"

namespace hyperion::analysis {
namespace {

struct Threads {
  std::vector<HostLane> lanes;
  std::vector<bool> own;    // the program's own spans
  std::vector<bool> steps;  // has ProfilerSteps, or spans "step"
};

bool is_host_event(trace::Category category) {
  using trace::Category;
  return category == Category::cpu_op || category == Category::user_annotation || category == Category::runtime ||
         category == Category::driver;
}

Threads threads_of(const trace::Trace& trace, int64_t begin, int64_t end) {
  std::vector<bool> is_step(trace.names.size());
  for (uint32_t id = 0; id < is_step.size(); ++id)
    is_step[id] = trace.names[id].starts_with("ProfilerStep#") || trace.names[id] == "step";
  Threads threads;
  std::map<std::pair<std::string, std::string>, size_t> known;
  std::vector<size_t> by_track(trace.tracks.size(), SIZE_MAX);
  for (size_t i = 0; i < trace.size(); ++i) {
    if (!is_host_event(trace.category(i)) || trace.duration[i] < 0 || trace.begin[i] == trace::kNoTime) continue;
    if (trace.end(i) < begin || trace.begin[i] >= end) continue;
    auto& at = by_track[trace.track[i]];
    if (at == SIZE_MAX) {
      const auto& track = trace.tracks[trace.track[i]];
      at = known.try_emplace({track.pid, track.tid}, threads.lanes.size()).first->second;
      if (at == threads.lanes.size()) {
        const bool own = track.pid == kOwnProcess;
        threads.lanes.push_back({base::format("{} {}", own ? "hyperion's thread" : "thread", track.tid), {}});
        threads.own.push_back(own), threads.steps.push_back(false);
      }
    }
    if (trace.name[i] != trace::kNoString && is_step[trace.name[i]])
      threads.steps[at] = true;
    else
      threads.lanes[at].events.push_back(static_cast<uint32_t>(i));
  }
  return threads;
}

void sort_outer_first(const trace::Trace& trace, std::vector<uint32_t>& events) {
  const auto outer_first = [&](uint32_t a, uint32_t b) {
    if (trace.begin[a] != trace.begin[b]) return trace.begin[a] < trace.begin[b];
    return trace.duration[a] != trace.duration[b] ? trace.duration[a] > trace.duration[b] : a < b;
  };
  if (!std::is_sorted(events.begin(), events.end(), outer_first)) std::sort(events.begin(), events.end(), outer_first);
}

// How large a part of some of the events begins within the outermost spans: they are of one thread where nearly all do.
double part_within(const trace::Trace& trace, const std::vector<uint32_t>& events, const std::vector<uint32_t>& spans) {
  std::vector<std::pair<int64_t, int64_t>> outermost;
  for (const auto span : spans)
    if (outermost.empty() || trace.begin[span] >= outermost.back().second)
      outermost.emplace_back(trace.begin[span], trace.end(span));
  const size_t stride = std::max<size_t>(1, events.size() / 1000);
  size_t within = 0, looked_at = 0;
  for (size_t i = 0; i < events.size(); i += stride, ++looked_at) {
    const int64_t begin = trace.begin[events[i]];
    const auto next = std::upper_bound(outermost.begin(), outermost.end(), begin,
                                       [](int64_t time, const auto& span) { return time < span.first; });
    within += next != outermost.begin() && begin < next[-1].second ? 1 : 0;
  }
  return looked_at == 0 ? 0 : static_cast<double>(within) / static_cast<double>(looked_at);
}

}  // namespace

std::vector<HostLane> host_lanes(const trace::Trace& trace, int64_t begin, int64_t end) {
  constexpr double kNearlyAll = 0.9;
  auto threads = threads_of(trace, begin, end);
  for (auto& lane : threads.lanes) sort_outer_first(trace, lane.events);
  auto& lanes = threads.lanes;
  std::vector<bool> taken(lanes.size());
  for (size_t own = 0; own < lanes.size(); ++own) {
    if (!threads.own[own] || lanes[own].events.empty()) continue;
    size_t best = SIZE_MAX;
    double best_part = kNearlyAll;
    for (size_t other = 0; other < lanes.size(); ++other) {
      if (threads.own[other] || taken[other] || lanes[other].events.empty()) continue;
      const bool both = threads.steps[own] && threads.steps[other];
      const double part = both ? 2 : part_within(trace, lanes[other].events, lanes[own].events);
      if (part > best_part) best = other, best_part = part;
    }
    if (best == SIZE_MAX) continue;
    taken[best] = true;
    lanes[best].events.insert(lanes[best].events.end(), lanes[own].events.begin(), lanes[own].events.end());
    sort_outer_first(trace, lanes[best].events);
    lanes[own].events.clear();
  }
  std::vector<HostLane> found;
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i].events.empty()) continue;
    const bool first = threads.steps[i];
    found.insert(first ? found.begin() : found.end(), std::move(lanes[i]));
  }
  return found;
}

}  // namespace hyperion::analysis
