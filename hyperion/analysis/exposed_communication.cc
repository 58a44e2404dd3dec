#include "hyperion/analysis/exposed_communication.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "hyperion/analysis/device_work.h"
#include "hyperion/analysis/host_lanes.h"
#include "hyperion/analysis/profiler_steps.h"

namespace hyperion::analysis {
namespace {

Intervals merged(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  Intervals all;
  for (const auto& interval : intervals) add_interval(all, interval);
  return all;
}

// Operators of the host, but for those that are a part of a collective.
std::vector<Interval> host_computation(const trace::Trace& trace, const RankCollectives& collectives) {
  std::vector<bool> is_collective(trace.size());
  for (const auto& each : collectives.all) is_collective[each.event] = true;
  std::vector<Interval> found;
  for (const auto& lane : host_lanes(trace, INT64_MIN, INT64_MAX)) {
    int64_t collective_until = INT64_MIN;
    for (const auto event : lane.events) {
      if (is_collective[event]) collective_until = std::max(collective_until, trace.end(event));
      if (trace.category(event) == trace::Category::cpu_op && trace.begin[event] >= collective_until)
        found.push_back({trace.begin[event], trace.end(event)});
    }
  }
  return found;
}

struct GroupTimes {
  std::vector<Interval> all, waiting;
};

int64_t exposed_part(std::vector<Interval> intervals, const Intervals& compute) {
  const auto all = merged(std::move(intervals));
  return length_of(all) - overlap_of(all, compute);
}

double in_microseconds(int64_t nanoseconds, int64_t parts = 1) {
  return static_cast<double>(nanoseconds) / 1000 / static_cast<double>(parts);
}

base::Json bubble_json(const PipelineBubble& bubble) {
  base::Json ranks = base::Json::array();
  for (const auto& rank : bubble.ranks)
    ranks.push_back({{"rank", rank.rank},
                     {"stages", rank.stages},
                     {"work_us", in_microseconds(rank.work, bubble.steps)},
                     {"before_us", in_microseconds(rank.before, bubble.steps)},
                     {"between_us", in_microseconds(rank.between, bubble.steps)},
                     {"after_us", in_microseconds(rank.after, bubble.steps)},
                     {"bubble_percent", bubble.percent(rank)}});
  return {{"steps", bubble.steps},
          {"time_us", in_microseconds(bubble.time, bubble.steps)},
          {"bubble_percent", bubble.percent()},
          {"clocks_known", !bubble.apart},
          {"ranks", std::move(ranks)}};
}

}  // namespace

RankCommunication communication_of(const trace::Trace& trace) {
  RankCommunication found;
  found.rank = trace.facts.rank.value_or(0);
  found.steps = std::max<int64_t>(1, static_cast<int64_t>(profiler_steps(trace).size()));
  found.collectives = collectives_of(trace);
  found.stages = stage_work_of(trace);
  if (found.collectives.all.empty()) return found;
  std::vector<bool> communicates;
  for (uint32_t id = 0; id < trace.names.size(); ++id)
    communicates.push_back(work_kind(trace.names[id]) == WorkKind::communication);
  std::vector<Interval> compute;
  bool on_device = false;
  for (size_t i = 0; i < trace.size(); ++i) {
    if (!is_device_work(trace.category(i)) || trace.duration[i] < 0 || trace.begin[i] == trace::kNoTime) continue;
    on_device = true;
    if (trace.name[i] == trace::kNoString || !communicates[trace.name[i]])
      compute.push_back({trace.begin[i], trace.end(i)});
  }
  if (!on_device) compute = host_computation(trace, found.collectives);
  for (auto& interval : compute) interval.begin += trace.facts.base_time_ns, interval.end += trace.facts.base_time_ns;
  found.compute = merged(std::move(compute));
  return found;
}

JobCommunication job_communication(const std::vector<RankCommunication>& ranks) {
  JobCommunication job;
  std::vector<const RankCollectives*> collectives;
  job.steps = 0;
  for (const auto& rank : ranks) collectives.push_back(&rank.collectives), job.steps += rank.steps;
  job.collectives = match_collectives(collectives);
  job.clocks = clock_offsets(collectives, job.collectives);
  // When the last rank of each had come, on the clock of the rank itself.
  std::vector<std::vector<int64_t>> all_begun(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) all_begun[rank].assign(collectives[rank]->all.size(), INT64_MIN);
  for (const auto& one : job.collectives.matched) {
    const bool sent = one.kind == CollectiveKind::send;
    if (!waits_for_all(one.kind) && !sent) continue;
    int64_t last = INT64_MIN;
    const auto of = [&](const Member& member) { return collectives[member.rank]->all[member.index]; };
    const auto sends = [&](const Member& member) { return of(member).kind == CollectiveKind::send; };
    for (const auto& member : one.members)
      if (!sent || sends(member)) last = std::max(last, of(member).begin - job.clocks[member.rank].nanoseconds);
    for (const auto& member : one.members)
      if (!sends(member)) all_begun[member.rank][member.index] = last + job.clocks[member.rank].nanoseconds;
  }
  std::unordered_map<std::string, size_t> numbers;
  for (const auto& group : job.collectives.groups) {
    numbers.try_emplace(group.key, job.groups.size());
    job.groups.push_back({group.key, group.axis, 0, 0, 0, 0, 0});
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto& own = *collectives[rank];
    std::vector<GroupTimes> times(own.groups.size());
    for (size_t i = 0; i < own.all.size(); ++i) {
      const auto& each = own.all[i];
      auto& group = times[each.group];
      group.all.push_back({each.begin, each.end});
      const int64_t came = std::min(all_begun[rank][i], each.end);
      if (came > each.begin) group.waiting.push_back({each.begin, came});
    }
    for (size_t i = 0; i < times.size(); ++i) {
      auto& exposure = job.groups[numbers.at(own.groups[i].key)];
      ++exposure.ranks;
      exposure.collectives += static_cast<int64_t>(times[i].all.size());
      exposure.time += length_of(merged(times[i].all));
      exposure.exposed += exposed_part(std::move(times[i].all), ranks[rank].compute);
      exposure.waited += exposed_part(std::move(times[i].waiting), ranks[rank].compute);
    }
  }
  std::stable_sort(job.groups.begin(), job.groups.end(),
                   [](const GroupExposure& a, const GroupExposure& b) { return a.exposed > b.exposed; });
  std::vector<RankStages> stages;
  for (const auto& rank : ranks) stages.push_back({rank.rank, &rank.stages});
  job.bubble = pipeline_bubble(stages, job.clocks);
  return job;
}

base::Json communication_json(const std::vector<RankCommunication>& ranks, const JobCommunication& job) {
  base::Json clocks = base::Json::array(), groups = base::Json::array();
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto& clock = job.clocks[i];
    clocks.push_back({{"rank", ranks[i].rank},
                      {"offset_us", clock.known ? base::Json(in_microseconds(clock.nanoseconds)) : base::Json()},
                      {"uncertainty_us", in_microseconds(clock.uncertainty)},
                      {"collectives", clock.collectives}});
  }
  for (const auto& group : job.groups)
    groups.push_back({{"group", group.group},
                      {"axis", group.axis.empty() ? base::Json() : base::Json(group.axis)},
                      {"ranks", group.ranks},
                      {"collectives", group.collectives},
                      {"time_us", in_microseconds(group.time, job.steps)},
                      {"exposed_us", in_microseconds(group.exposed, job.steps)},
                      {"waited_us", in_microseconds(group.waited, job.steps)}});
  return {{"clocks", std::move(clocks)},
          {"groups", std::move(groups)},
          {"lacking", job.collectives.lacking},
          {"pipeline", job.bubble ? bubble_json(*job.bubble) : base::Json()}};
}

}  // namespace hyperion::analysis
