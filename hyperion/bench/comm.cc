#include "hyperion/bench/comm.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/bench/figures.h"
#include "hyperion/report/plot.h"

namespace hyperion::bench {
namespace {

using base::format;

base::Json row_json(const doctor::CollectiveRow& row, int ranks) {
  return {{"collective", row.name},
          {"bytes", row.bytes},
          {"seconds", row.seconds.median},
          {"low", row.seconds.low},
          {"high", row.seconds.high},
          {"repeats", row.seconds.repeats},
          {"algorithm_bandwidth", row.algorithm_bandwidth()},
          {"bus_bandwidth", row.bus_bandwidth(ranks)},
          {"wrong", row.all_wrong()}};
}

// One line a collective: its bus bandwidth by size.
std::string bandwidth_svg(const CommBenchResult& result) {
  report::Plot plot{"Bus bandwidth, " + result.job, "bytes", "GB/s", true, true, {}};
  for (const auto& row : result.rows) {
    if (row.bytes == 0) continue;
    if (plot.series.empty() || plot.series.back().name != row.name) plot.series.push_back({row.name, {}, {}});
    plot.series.back().x.push_back(static_cast<double>(row.bytes));
    plot.series.back().y.push_back(row.bus_bandwidth(result.ranks) / 1e9);
  }
  return report::svg(plot);
}

}  // namespace

bool CommBenchResult::wrong() const {
  return std::any_of(rows.begin(), rows.end(), [](const doctor::CollectiveRow& row) { return row.all_wrong() > 0; });
}

CommBenchResult run_comm_bench(doctor::CommJob& job, const CommBenchOptions& options) {
  const base::OperationScope operation("bench.comm");
  std::vector<int64_t> sizes;
  for (int64_t bytes = options.least; bytes <= options.most; bytes *= options.factor) sizes.push_back(bytes);
  doctor::check_sizes(sizes, job.world->local_size());
  const auto& names = options.only.empty() ? doctor::collective_names() : options.only;
  doctor::CommProgress progress(job, "bench comm");
  CommBenchResult result{job.text(), job.ranks(), {}};
  result.rows = doctor::measure_collectives(job, names, sizes, options.seconds,
                                            [&](const std::string& what) { progress.show(what); });
  progress.clear();
  return result;
}

std::vector<std::vector<std::string>> collective_table(const std::vector<doctor::CollectiveRow>& rows, int ranks) {
  std::vector<std::vector<std::string>> table = {
      {"collective", "size B", "count", "type", "time us", "+-", "algbw GB/s", "busbw GB/s", "wrong"}};
  for (const auto& row : rows) {
    const bool data = row.bytes > 0;
    table.push_back({row.name, data ? format("{}", row.bytes) : "", data ? format("{}", row.bytes / 4) : "",
                     data ? "fp32" : "", format("{:.1f}", 1e6 * row.seconds.median), noise_text(row.seconds),
                     data ? format("{:.4f}", row.algorithm_bandwidth() / 1e9) : "",
                     data ? format("{:.4f}", row.bus_bandwidth(ranks) / 1e9) : "", format("{}", row.all_wrong())});
  }
  return table;
}

Outcome comm_outcome(const CommBenchResult& result) {
  Outcome outcome{"comm", result.job + "\n", {}, {}, {}};
  const auto table = collective_table(result.rows, result.ranks);
  outcome.table += aligned(table, {0, 3});
  for (const auto& text : doctor::wrong_texts(result.rows, result.ranks)) outcome.table += "wrong: " + text + "\n";
  outcome.csv = "ranks,collective,bytes,seconds,low,high,repeats,algorithm_bandwidth,bus_bandwidth,wrong\n";
  Figures figures{"comm", result.job, {}};
  base::Json rows = base::Json::array();
  for (const auto& row : result.rows) {
    figures.list.push_back(time_figure(format("{} {} B", row.name, row.bytes), "us", row.seconds, 1e6));
    rows.push_back(row_json(row, result.ranks));
    outcome.csv += format("{},{},{},{:.6g},{:.6g},{:.6g},{},{:.6g},{:.6g},{}\n", result.ranks, row.name, row.bytes,
                          row.seconds.median, row.seconds.low, row.seconds.high, row.seconds.repeats,
                          row.algorithm_bandwidth(), row.bus_bandwidth(result.ranks), row.all_wrong());
  }
  auto json = result_json(figures);
  json["ranks"] = result.ranks, json["rows"] = std::move(rows),
  json["faults"] = doctor::wrong_texts(result.rows, result.ranks);
  outcome.json = json.dump(2) + "\n";
  outcome.pictures = {{"comm.svg", bandwidth_svg(result)}};
  return outcome;
}

}  // namespace hyperion::bench
