#include "hyperion/analysis/findings.h"

#include <algorithm>

#include "hyperion/analysis/stragglers.h"
#include "hyperion/base/format.h"

namespace hyperion::analysis {
namespace {

using base::format;

struct Advice {
  TimePart part;
  const char* says;  // after "for 12.3% of the time (ranks 10.1% to 14.0%) "
};

constexpr Advice kDeviceAdvice[] = {
    {TimePart::exposed, "communication runs with no computation beside it"},
    {TimePart::host_wait,
     "the device has nothing to do because its next launch came too late: look at the host, at what waits for the "
     "device within a step, or record steps as graphs"},
    {TimePart::kernel_wait, "the device is between two kernels: many short ones, that could be fused or recorded"},
    {TimePart::idle, "no kernel runs on the device although its launch had come: it waits for other streams or events"},
    {TimePart::memory, "only copies and fills run"},
    {TimePart::wait, "only waits run on the device"}};

constexpr Advice kHostAdvice[] = {
    {TimePart::exposed, "the first thread is in communication"},
    {TimePart::wait, "the first thread waits for the device or another thread"},
    {TimePart::input, "the first thread waits for its input: look at the feed and its workers"},
    {TimePart::idle, "nothing is recorded on the first thread"}};

void add_part(std::vector<Finding>& found, const std::vector<RankTime>& times, bool device, const Advice& advice) {
  double sum = 0, least = 100, most = 0;
  size_t count = 0;
  for (const auto& rank : times) {
    if (rank.on_device != device || rank.total() == 0) continue;
    const double percent = rank.percent(advice.part);
    sum += percent, least = std::min(least, percent), most = std::max(most, percent), ++count;
  }
  if (count == 0) return;
  const double mean = sum / static_cast<double>(count);
  const auto spread = count > 1 ? format(" (ranks: {:.1f}% to {:.1f}%)", least, most) : std::string();
  found.push_back({mean, format("For {:.1f}% of the time{} {}.", mean, spread, advice.says)});
}

// Beside which the exposed communication is told by group.
void add_group(std::vector<Finding>& found, const JobCommunication& communication) {
  int64_t all = 0;
  for (const auto& group : communication.groups) all += group.exposed;
  if (found.empty() || all == 0) return;
  const auto& most = communication.groups.front();
  const double steps = static_cast<double>(std::max<int64_t>(communication.steps, 1));
  const auto axis = most.axis.empty() ? std::string() : format(" ({})", most.axis);
  found.back().text += format(" Most of it, {:.3f} ms a step, is of group {}{}",
                              static_cast<double>(most.exposed) / steps / 1e6, short_name(most.group), axis);
  const double waited =
      100 * static_cast<double>(most.waited) / static_cast<double>(std::max<int64_t>(most.exposed, 1));
  found.back().text += waited < 1 ? "." : format("; {:.0f}% of that before the last rank had come.", waited);
}

void add_bubble(std::vector<Finding>& found, const PipelineBubble& bubble) {
  const double percent = bubble.percent();
  const auto& longest = bubble.longest();
  const double mean = bubble.mean_work(), beyond = mean > 0 ? 100 * (static_cast<double>(longest.work) / mean - 1) : 0;
  auto text = format("The pipeline's ranks stand still for {:.1f}% of the time from the first micro-batch to the last.",
                     percent);
  text += beyond >= 5
              ? format(" Rank {} works longest, {:.1f}% beyond the mean: give its stages less, or plan the cut anew.",
                       longest.rank, beyond)
              : " Its stages take about as long as each other: more micro-batches, or a schedule with a smaller "
                "bubble, would help.";
  found.push_back({percent, std::move(text)});
}

// Of computation: what collectives take is told of by itself.
void add_kernel(std::vector<Finding>& found, const std::vector<RankAnalysis>& ranks) {
  const KernelRow* longest = nullptr;
  const RankAnalysis* of = nullptr;
  for (const auto& rank : ranks)
    for (const auto& kernel : rank.kernels)
      if (kernel.kind == WorkKind::computation && (longest == nullptr || kernel.sum > longest->sum))
        longest = &kernel, of = &rank;
  if (longest == nullptr || of->times.total == 0) return;
  const double percent = 100 * static_cast<double>(longest->sum) / static_cast<double>(of->times.total);
  found.push_back({percent, format("Kernel {} takes longest: {:.1f}% of the time on rank {}, {} times {:.1f} us.",
                                   short_name(longest->name), percent, of->rank, base::with_commas(longest->count),
                                   longest->mean / 1e3)});
}

// Not a part of a step, but what a reader of the rest must know.
void add_without_kernels(std::vector<Finding>& found, const std::vector<RankAnalysis>& ranks) {
  const auto without = [](const RankAnalysis& rank) { return rank.device_events == 0; };
  const auto first = std::find_if(ranks.begin(), ranks.end(), without);
  if (first == ranks.end()) return;
  const auto count = std::count_if(first, ranks.end(), without);
  const auto who = count == std::ssize(ranks) ? std::string("No rank has kernels")
                   : count == 1               ? format("Rank {} has no kernels", first->rank)
                                              : format("Rank {} and {} others have no kernels", first->rank, count - 1);
  found.push_back({100, format("{}: {}.", who, without_kernels_text(*first))});
}

std::string taken_out(const WhatIf& what, const Job& job) {
  switch (what.without) {
    case Cause::rank:
      return format("what {} takes longer than the others", what_if_text(what, job));
    case Cause::communication:
      return "communication, but with waits for the last rank,";
    case Cause::host:
      return "the host's own time and waits for it";
    case Cause::input:
      break;
  }
  return what_if_text(what, job);
}

void add_saved(std::vector<Finding>& found, const Job& job, const PathReport& report) {
  for (const auto& each : report.without) {
    const double percent = report.step > 0 ? 100 * (report.step - each.step) / report.step : 0;
    found.push_back({percent, format("Without {} a step would take {:.3f} ms instead of {:.3f} ({:.1f}% less).",
                                     taken_out(each.what, job), each.step / 1e6, report.step / 1e6, percent)});
  }
}

}  // namespace

std::vector<Finding> findings(const std::vector<RankAnalysis>& ranks, const std::vector<RankTime>& times,
                              const JobCommunication& communication, const Job* job, const PathReport* report,
                              double least) {
  std::vector<Finding> found;
  for (const auto& advice : kDeviceAdvice) {
    add_part(found, times, true, advice);
    if (advice.part == TimePart::exposed) add_group(found, communication);
  }
  for (const auto& advice : kHostAdvice) add_part(found, times, false, advice);
  if (communication.bubble) add_bubble(found, *communication.bubble);
  add_kernel(found, ranks);
  add_without_kernels(found, ranks);
  if (job != nullptr && report != nullptr) add_saved(found, *job, *report);
  if (const auto straggler = find_straggler(ranks)) {
    auto text = straggler_text(*straggler);
    text[0] = 'R';
    found.push_back({straggler->percent, text + "."});
  }
  std::erase_if(found, [&](const Finding& finding) { return finding.percent < least; });
  std::stable_sort(found.begin(), found.end(),
                   [](const Finding& a, const Finding& b) { return a.percent > b.percent; });
  return found;
}

}  // namespace hyperion::analysis
