#include "hyperion/analysis/pipeline_bubble.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "hyperion/analysis/collectives.h"
#include "hyperion/analysis/device_work.h"
#include "hyperion/analysis/intervals.h"

namespace hyperion::analysis {
namespace {

constexpr std::string_view kStageWord = "stage ";

// The kernels that were launched in each, where the rank has a device: from the first one's begin to the last one's
// end.
void move_to_device(const trace::Trace& trace, std::vector<StageWork>& work) {
  std::unordered_map<int64_t, size_t> launched_in;  // by correlation
  for (size_t i = 0; i < trace.size(); ++i) {
    const auto category = trace.category(i);
    if (category != trace::Category::runtime && category != trace::Category::driver) continue;
    if (trace.correlation(i) == trace::kNone || trace.begin[i] == trace::kNoTime) continue;
    const int64_t time = trace.facts.base_time_ns + trace.begin[i];
    const auto later = std::upper_bound(work.begin(), work.end(), time,
                                        [](int64_t at, const StageWork& each) { return at < each.begin; });
    if (later != work.begin() && time < later[-1].end)
      launched_in[trace.correlation(i)] = static_cast<size_t>(later - work.begin() - 1);
  }
  std::vector<Interval> ran(work.size(), {INT64_MAX, INT64_MIN});
  for (size_t i = 0; i < trace.size(); ++i) {
    if (!is_device_work(trace.category(i)) || trace.duration[i] < 0 || trace.begin[i] == trace::kNoTime) continue;
    if (trace.name[i] == trace::kNoString || work_kind(trace.name_text(i)) == WorkKind::communication) continue;
    const auto at = launched_in.find(trace.correlation(i));
    if (at == launched_in.end()) continue;
    auto& interval = ran[at->second];
    interval.begin = std::min(interval.begin, trace.facts.base_time_ns + trace.begin[i]);
    interval.end = std::max(interval.end, trace.facts.base_time_ns + trace.end(i));
  }
  for (size_t i = 0; i < work.size(); ++i)
    if (ran[i].begin < ran[i].end) work[i].begin = ran[i].begin, work[i].end = ran[i].end;
}

using Steps = std::map<int64_t, Intervals>;  // of a rank: when it worked, by step

Steps steps_of(const std::vector<StageWork>& work, int64_t clock) {
  Steps steps;
  for (const auto& each : work) add_interval(steps[each.step], {each.begin - clock, each.end - clock});
  return steps;
}

std::set<int64_t> shared_steps(const std::vector<Steps>& ranks) {
  std::set<int64_t> shared;
  for (const auto& [step, intervals] : ranks.front())
    if (std::all_of(ranks.begin(), ranks.end(), [step = step](const Steps& rank) { return rank.contains(step); }))
      shared.insert(step);
  return shared;
}

void add_step(PipelineBubble& found, const std::vector<Steps>& ranks, int64_t step) {
  int64_t begin = INT64_MAX, end = INT64_MIN, longest = 0;
  for (const auto& rank : ranks) {
    const auto& own = rank.at(step);
    begin = std::min(begin, own.front().begin), end = std::max(end, own.back().end);
    longest = std::max(longest, own.back().end - own.front().begin);
  }
  const int64_t time = found.apart ? longest : end - begin;
  found.time += time;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto& own = ranks[i].at(step);
    auto& rank = found.ranks[i];
    const int64_t work = length_of(own);
    const int64_t before = found.apart ? 0 : own.front().begin - begin, after = found.apart ? 0 : end - own.back().end;
    rank.work += work, rank.before += before, rank.after += after;
    rank.between += time - work - before - after;
  }
}

double percent_of(int64_t part, int64_t whole) {
  return whole > 0 ? 100 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

}  // namespace

std::vector<StageWork> stage_work_of(const trace::Trace& trace) {
  std::vector<bool> named, own;
  for (uint32_t id = 0; id < trace.names.size(); ++id) named.push_back(trace.names[id].starts_with(kStageWord));
  for (const auto& track : trace.tracks) own.push_back(track.pid == kOwnProcess);
  std::vector<StageWork> work;
  bool on_device = false;
  for (size_t i = 0; i < trace.size(); ++i) {
    on_device = on_device || is_device_work(trace.category(i));
    if (trace.name[i] == trace::kNoString || !named[trace.name[i]] || !own[trace.track[i]]) continue;
    if (trace.duration[i] < 0 || trace.begin[i] == trace::kNoTime) continue;
    const auto stage = trace.integer_arg(i, "stage"), micro_batch = trace.integer_arg(i, "micro_batch");
    if (stage < 0 || micro_batch < 0) continue;
    const int64_t base = trace.facts.base_time_ns;
    work.push_back({base + trace.begin[i], base + trace.end(i), stage, micro_batch, trace.integer_arg(i, "step")});
  }
  const auto by_begin = [](const StageWork& a, const StageWork& b) { return a.begin < b.begin; };
  std::stable_sort(work.begin(), work.end(), by_begin);
  if (on_device && !work.empty()) {
    move_to_device(trace, work);
    std::stable_sort(work.begin(), work.end(), by_begin);
  }
  return work;
}

double PipelineBubble::percent(const RankBubble& one) const {
  return percent_of(one.before + one.between + one.after, time);
}

double PipelineBubble::percent() const {
  double sum = 0;
  for (const auto& rank : ranks) sum += percent(rank);
  return ranks.empty() ? 0 : sum / static_cast<double>(ranks.size());
}

double PipelineBubble::mean_work() const {
  double sum = 0;
  for (const auto& rank : ranks) sum += static_cast<double>(rank.work);
  return ranks.empty() ? 0 : sum / static_cast<double>(ranks.size());
}

const RankBubble& PipelineBubble::longest() const {
  return *std::max_element(ranks.begin(), ranks.end(),
                           [](const RankBubble& a, const RankBubble& b) { return a.work < b.work; });
}

std::optional<PipelineBubble> pipeline_bubble(const std::vector<RankStages>& ranks,
                                              const std::vector<ClockOffset>& clocks) {
  PipelineBubble found;
  std::set<int64_t> stages;
  std::vector<Steps> steps;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].work->empty()) continue;
    found.apart = found.apart || !clocks[i].known;
    std::set<int64_t> own;
    for (const auto& each : *ranks[i].work) own.insert(each.stage);
    stages.insert(own.begin(), own.end());
    found.ranks.push_back({ranks[i].rank, {own.begin(), own.end()}, 0, 0, 0, 0});
    steps.push_back(steps_of(*ranks[i].work, clocks[i].nanoseconds));
  }
  if (stages.size() < 2) return std::nullopt;
  for (const auto step : shared_steps(steps)) {
    add_step(found, steps, step);
    ++found.steps;
  }
  if (found.steps == 0 || found.time == 0) return std::nullopt;
  return found;
}

}  // namespace hyperion::analysis
