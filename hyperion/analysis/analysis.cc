#include "hyperion/analysis/analysis.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>
#include <thread>

#include "hyperion/analysis/device_work.h"
#include "hyperion/analysis/profiler_steps.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::analysis {
namespace {

double in_us(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1000; }

double rounded_percent(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : std::round(1e4 * static_cast<double>(part) / static_cast<double>(whole)) / 100;
}

base::Json times_json(const TimeBreakdown& times) {
  const auto& by = times.by_kinds;
  const auto overlap = times.overlap_percent();
  return {{"idle_us", in_us(times.idle)},
          {"compute_us", in_us(times.compute)},
          {"non_compute_us", in_us(times.non_compute)},
          {"total_us", in_us(times.total)},
          {"idle_percent", rounded_percent(times.idle, times.total)},
          {"compute_percent", rounded_percent(times.compute, times.total)},
          {"non_compute_percent", rounded_percent(times.non_compute, times.total)},
          {"communication_us", in_us(times.communication)},
          {"overlapped_us", in_us(times.overlapped)},
          {"overlap_percent", overlap ? base::Json(std::round(*overlap * 100) / 100) : base::Json()},
          {"by_kinds_us",
           {{"computation", in_us(by[1])},
            {"communication", in_us(by[2])},
            {"computation and communication", in_us(by[3])},
            {"memory", in_us(by[4])},
            {"computation and memory", in_us(by[5])},
            {"communication and memory", in_us(by[6])},
            {"all three", in_us(by[7])}}}};
}

base::Json idle_json(const StreamIdle& idle) {
  return {{"host_wait_us", in_us(idle.host_wait)},
          {"kernel_wait_us", in_us(idle.kernel_wait)},
          {"other_us", in_us(idle.other)},
          {"gaps", idle.gaps}};
}

base::Json rank_json(const RankAnalysis& rank, size_t top) {
  base::Json idle = base::Json::array(), kernels = base::Json::array(), operators = base::Json::array();
  for (const auto& row : rank.idle) {
    idle.push_back(idle_json(row));
    idle.back()["stream"] = row.stream;
  }
  for (size_t i = 0; i < std::min(top, rank.kernels.size()); ++i) {
    const auto& row = rank.kernels[i];
    kernels.push_back({{"name", row.name},
                       {"kind", kind_text(row.kind)},
                       {"count", row.count},
                       {"sum_us", in_us(row.sum)},
                       {"max_us", in_us(row.longest)},
                       {"min_us", in_us(row.shortest)},
                       {"mean_us", row.mean / 1000},
                       {"stddev_us", row.deviation / 1000}});
  }
  for (size_t i = 0; i < std::min(top, rank.operators.size()); ++i) {
    const auto& row = rank.operators[i];
    operators.push_back({{"name", row.name},
                         {"count", row.count},
                         {"self_us", in_us(row.self)},
                         {"total_us", in_us(row.total)},
                         {"device_us", in_us(row.device)}});
  }
  return {{"rank", rank.rank},
          {"file", rank.path},
          {"events", rank.events},
          {"device_events", rank.device_events},
          {"steps", rank.steps},
          {"left_out", rank.left_out},
          {"times", times_json(rank.times)},
          {"idle", std::move(idle)},
          {"device_idle", idle_json(rank.device_idle)},
          {"kernels", std::move(kernels)},
          {"operators", std::move(operators)}};
}

}  // namespace

RankAnalysis analyze(const trace::Trace& trace, const AnalysisOptions& options) {
  RankAnalysis result;
  result.path = trace.facts.path;
  result.rank = trace.facts.rank.value_or(0);
  result.events = static_cast<int64_t>(trace.size());
  std::exception_ptr failure;
  {
    const std::jthread host([&] {
      try {
        result.operators = operator_table(trace);
      } catch (...) {
        failure = std::current_exception();
      }
    });
    const auto work = device_work(trace, options.steps);
    result.device_events = static_cast<int64_t>(work.spans.size());
    // Of the host alone none is left out.
    result.steps = work.spans.empty() && work.left_out == 0 ? std::ssize(profiler_steps(trace)) : work.steps;
    result.left_out = work.left_out;
    result.times = time_breakdown(work);
    result.idle = idle_by_cause(trace, work, options.short_gap);
    result.device_idle = device_idle(work, options.short_gap);
    result.kernels = kernel_table(trace, work);
  }
  if (failure) std::rethrow_exception(failure);
  return result;
}

const char* without_kernels_text(const RankAnalysis& rank) {
  return rank.left_out > 0 ? "all were launched in the last step; --last-step takes it in"
                           : "it was recorded without a GPU, or without its activities";
}

void order_by_rank(std::vector<RankAnalysis>& ranks) {
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const RankAnalysis& a, const RankAnalysis& b) { return a.rank < b.rank; });
  for (size_t i = 1; i < ranks.size(); ++i)
    if (ranks[i].rank == ranks[i - 1].rank)
      throw base::CorruptError(
          base::format("{} and {} are both of rank {}", ranks[i - 1].path, ranks[i].path, ranks[i].rank),
          "name one file of each rank, all of one recording");
}

base::Json analysis_json(const std::vector<RankAnalysis>& ranks, size_t top) {
  base::Json list = base::Json::array();
  for (const auto& rank : ranks) list.push_back(rank_json(rank, top));
  return {{"ranks", std::move(list)}};
}

}  // namespace hyperion::analysis
