#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/bench/figures.h"
#include "hyperion/bench/scaling.h"
#include "hyperion/report/bars.h"
#include "hyperion/report/plot.h"

namespace hyperion::bench {
namespace {

using base::format;

std::string rank_mebibytes(double bytes) { return format("{:.2f}", bytes / 0x1p20); }
std::string milliseconds(double seconds) { return format("{:.1f}", 1e3 * seconds); }
std::string mode_text(const ScalingRow& row) { return row.ranks == 1 ? "one process" : row.mode; }
std::string batch_text(const ScalingRow& row) { return row.batch > 0 ? format("{} a rank", row.batch) : "shared"; }

struct Gain {
  double speedup = 0, efficiency = 0;
};

Gain gain_of(const ScalingResult& result, const ScalingRow& row) {
  const auto* base = base_of(result, row);
  if (base == nullptr) return {};
  const double speedup = row.tokens_s / base->tokens_s;
  return {speedup, speedup * static_cast<double>(base->ranks) / static_cast<double>(row.ranks)};
}

std::string table_of(const ScalingResult& result) {
  std::vector<std::vector<std::string>> rows = {{"mode", "batch", "ranks", "step ms", "+-", "tokens/s", "speedup",
                                                 "efficiency", "computing ms", "waiting ms", "under way ms", "hidden",
                                                 "sent MiB", "state MiB", "activations MiB", "peak MiB"}};
  std::string failed;
  for (const auto& row : result.rows) {
    if (!row.failed.empty()) {
      rows.push_back({mode_text(row), batch_text(row), format("{}", row.ranks), "-"});
      failed += format("{} on {} {}: {}\n", row.mode, row.ranks, row.ranks == 1 ? "rank" : "ranks", row.failed);
      continue;
    }
    const auto gain = gain_of(result, row);
    const bool alone = row.ranks == 1;
    rows.push_back({mode_text(row), batch_text(row), format("{}", row.ranks), milliseconds(row.step.median),
                    noise_text(row.step), base::with_commas(static_cast<int64_t>(row.tokens_s)),
                    format("{:.2f}x", gain.speedup), format("{:.0f}%", 100 * gain.efficiency),
                    milliseconds(row.computing), alone ? "" : milliseconds(row.exposed),
                    alone ? "" : milliseconds(row.under_way), alone ? "" : format("{:.0f}%", 100 * row.hidden()),
                    alone ? "" : rank_mebibytes(row.bytes), rank_mebibytes(static_cast<double>(row.state)),
                    rank_mebibytes(static_cast<double>(row.activations)),
                    format("{:.0f}", static_cast<double>(row.peak) / 0x1p20)});
  }
  std::string text = aligned(rows, {0, 1}) + (failed.empty() ? "" : "\nno figures:\n" + failed);
  if (std::none_of(result.rows.begin(), result.rows.end(), [](const auto& row) { return row.ranks == 1; }))
    text += "speedup and efficiency are against the fewest ranks of the same mode: add 1 to --ranks\n";
  return text;
}

// One line for each mode (and batch) over the ranks.
template <class Value>
std::string lines_svg(const ScalingResult& result, const char* title, const char* unit, bool ideal,
                      const Value& value) {
  report::Plot plot{title, "ranks", unit, false, false, {}};
  std::vector<double> ranks;
  const auto line = [&](const ScalingRow& row) -> report::Series& {
    const auto name = row.batch > 0 ? format("{}, {} a rank", row.mode, row.batch) : row.mode;
    const auto found =
        std::find_if(plot.series.begin(), plot.series.end(), [&](const auto& s) { return s.name == name; });
    return found != plot.series.end() ? *found : plot.series.emplace_back(report::Series{name, {}, {}});
  };
  for (const auto& row : result.rows) {
    if (!row.failed.empty()) continue;
    ranks.push_back(static_cast<double>(row.ranks));
    const auto add = [&](report::Series& series) {
      series.x.push_back(static_cast<double>(row.ranks)), series.y.push_back(value(row));
    };
    if (row.ranks > 1) {
      add(line(row));
      continue;
    }
    for (const auto& other : result.rows)  // where every mode begins
      if (other.ranks > 1 && other.failed.empty() && other.batch == row.batch) {
        auto& series = line(other);
        if (series.x.empty()) add(series);
      }
  }
  if (ideal && !ranks.empty()) {
    const double least = *std::min_element(ranks.begin(), ranks.end());
    report::Series best{"ideal", {}, {}};
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    for (const double count : ranks) best.x.push_back(count), best.y.push_back(count / least);
    plot.series.push_back(std::move(best));
  }
  return report::svg(plot);
}

std::string bars(const ScalingResult& result, const char* title,
                 const std::vector<std::pair<std::string, double (*)(const ScalingRow&)>>& kinds,
                 std::string (*shown)(double)) {
  std::vector<report::BarGroup> groups;
  for (const auto& row : result.rows) {
    if (!row.failed.empty()) continue;
    report::BarGroup group{format("{}, {} {}{}", mode_text(row), row.ranks, row.ranks == 1 ? "rank" : "ranks",
                                  row.batch > 0 ? format(", batch {}", row.batch) : ""),
                           {}};
    for (size_t i = 0; i < kinds.size(); ++i) {
      const double value = kinds[i].second(row);
      group.bars.push_back({kinds[i].first, value, shown(value), static_cast<int>(i)});
    }
    groups.push_back(std::move(group));
  }
  return report::bars_svg(title, groups);
}

base::Json row_json(const ScalingResult& result, const ScalingRow& row) {
  base::Json json = {{"mode", row.mode}, {"ranks", row.ranks}, {"batch_a_rank", row.batch}};
  if (!row.failed.empty()) {
    json["failed"] = row.failed;
    return json;
  }
  const auto gain = gain_of(result, row);
  json.update({{"step_s", row.step.median},
               {"step_s_low", row.step.low},
               {"step_s_high", row.step.high},
               {"tokens_per_s", row.tokens_s},
               {"speedup", gain.speedup},
               {"efficiency", gain.efficiency},
               {"computing_s", row.computing},
               {"comm_exposed_s", row.exposed},
               {"comm_total_s", row.under_way},
               {"hidden", row.hidden()},
               {"sent_bytes_a_step", row.bytes},
               {"state_bytes", row.state},
               {"activation_bytes", row.activations},
               {"peak_bytes", row.peak},
               {"loss", row.loss}});
  return json;
}

}  // namespace

Outcome scaling_outcome(const ScalingResult& result) {
  Outcome outcome{"scaling", {}, {}, {}, {}};
  const int64_t most = std::max_element(result.rows.begin(), result.rows.end(), [](auto& a, auto& b) {
                         return a.ranks < b.ranks;
                       })->ranks;
  outcome.table = format("{} on {}, {} steps, {} {} a rank, {} cores\n", result.what, result.device, result.steps,
                         result.threads, result.threads == 1 ? "thread" : "threads", result.cores) +
                  table_of(result);
  if (result.device == "CPU" && most * result.threads > result.cores)
    outcome.table += format("note: {} ranks share {} cores: beyond {} there is nothing to gain\n", most, result.cores,
                            std::max<int64_t>(1, result.cores / result.threads));
  outcome.csv =
      "mode,ranks,batch_a_rank,step_s,tokens_per_s,speedup,efficiency,computing_s,comm_exposed_s,comm_total_s,hidden,"
      "sent_bytes,state_bytes,activation_bytes,peak_bytes,loss\n";
  Figures figures{"scaling", result.device, {}};
  base::Json rows = base::Json::array();
  for (const auto& row : result.rows) {
    const auto name = format("{} {} ranks{}", row.mode, row.ranks, row.batch > 0 ? format(" batch {}", row.batch) : "");
    rows.push_back(row_json(result, row));
    if (!row.failed.empty()) {
      figures.list.push_back({name, "ms", {}});
      continue;
    }
    figures.list.push_back(time_figure(name, "ms", row.step, 1e3));
    const auto gain = gain_of(result, row);
    outcome.csv +=
        format("{},{},{},{:.6g},{:.6g},{:.4g},{:.4g},{:.6g},{:.6g},{:.6g},{:.4g},{:.0f},{},{},{},{:.6g}\n", row.mode,
               row.ranks, row.batch, row.step.median, row.tokens_s, gain.speedup, gain.efficiency, row.computing,
               row.exposed, row.under_way, row.hidden(), row.bytes, row.state, row.activations, row.peak, row.loss);
  }
  auto json = result_json(figures);
  json.update({{"recipe", result.what},
               {"steps", result.steps},
               {"threads_a_rank", result.threads},
               {"cores", result.cores},
               {"rows", std::move(rows)}});
  outcome.json = json.dump(2) + "\n";
  const auto bytes = [](double value) { return base::bytes_text(static_cast<uint64_t>(value)); };
  const auto time = [](double value) { return milliseconds(value) + " ms"; };
  outcome.pictures = {
      {"speedup.svg", lines_svg(result, "Speedup", "times", true,
                                [&](const ScalingRow& row) { return gain_of(result, row).speedup; })},
      {"efficiency.svg", lines_svg(result, "Efficiency", "%", false,
                                   [&](const ScalingRow& row) { return 100 * gain_of(result, row).efficiency; })},
      {"memory.svg",
       bars(result, "Memory of a rank",
            {{"weights, gradients, optimizer", [](const ScalingRow& row) { return static_cast<double>(row.state); }},
             {"activations", [](const ScalingRow& row) { return static_cast<double>(row.activations); }}},
            bytes)},
      {"bytes.svg",
       bars(result, "Sent by a rank a step", {{"bytes", [](const ScalingRow& row) { return row.bytes; }}}, bytes)},
      {"communication.svg",
       bars(result, "A step: computing, waiting for others, and what was hidden",
            {{"computing", [](const ScalingRow& row) { return row.computing; }},
             {"waiting", [](const ScalingRow& row) { return row.exposed; }},
             {"hidden", [](const ScalingRow& row) { return std::max(0.0, row.under_way - row.exposed); }}},
            time)}};
  return outcome;
}

}  // namespace hyperion::bench
