#include "hyperion/analysis/roofline.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "hyperion/base/format.h"

namespace hyperion::analysis {
namespace {

using base::format;

double step_ms(int64_t time, const LayerTimes& rank) {
  return static_cast<double>(time) / 1e6 / static_cast<double>(rank.steps);
}

constexpr const char* kByMemory =
    "; it is bound by memory: fewer passes (--optimize fused), narrower types, or a larger batch that a weight is read "
    "for";
constexpr const char* kPasses = "; what is left lies in passes between products";
constexpr const char* kFar =
    "; products are far from the peak: larger batches or lengths, --optimize fused, graph or max, or what runs between "
    "the products (hyperion trace analyze)";
constexpr const char* kFarOnCpu =
    "; products are far from the peak: larger batches or lengths, cores that do nothing else, or what runs between the "
    "products (hyperion trace analyze)";

// All of a phase together.
RooflineRow sum_of(const Roofline& found, Phase phase, bool blocks) {
  RooflineRow sum{blocks ? "all blocks" : kOutsideBlocks, phase, 0, {}};
  for (const auto& row : found.rows) {
    if (row.phase != phase || (row.name != kOutsideBlocks) != blocks) continue;
    sum.ms += row.ms, sum.work.flops += row.work.flops, sum.work.bytes += row.work.bytes;
  }
  return sum;
}

std::vector<std::string> cells_of(const RooflineRow& row, const Ceiling& ceiling, double step) {
  const auto known = [](double value, const std::string& text) { return value > 0 ? text : std::string("-"); };
  return {short_name(row.name, 40),
          std::string(phase_text(row.phase)),
          format("{:.3f}", row.ms),
          format("{:.1f}", step > 0 ? 100 * row.ms / step : 0),
          format("{:.3f}", row.work.flops / 1e9),
          format("{:.2f}", row.work.bytes / 1e6),
          known(row.intensity(), format("{:.1f}", row.intensity())),
          format("{:.1f}", row.tflops() * 1e3),
          row.least_ms(ceiling) > 0 ? (row.by_memory(ceiling) ? "memory" : "products") : "-",
          known(row.least_ms(ceiling), format("{:.1f}", row.percent(ceiling)))};
}

}  // namespace

bool RooflineRow::by_memory(const Ceiling& ceiling) const {
  if (ceiling.bandwidth <= 0) return false;
  return ceiling.tflops <= 0 || work.bytes / ceiling.bandwidth * 1e3 > work.flops / ceiling.tflops;
}

double RooflineRow::least_ms(const Ceiling& ceiling) const {
  const double products = ceiling.tflops > 0 ? work.flops / ceiling.tflops * 1e-9 : 0;
  const double memory = ceiling.bandwidth > 0 ? work.bytes / ceiling.bandwidth * 1e-6 : 0;
  return std::max(products, memory);
}

double RooflineRow::percent(const Ceiling& ceiling) const { return ms > 0 ? 100 * least_ms(ceiling) / ms : 0; }

Roofline roofline(const std::vector<LayerTimes>& ranks, const WorkOf& work, const Ceiling& ceiling,
                  std::string machine) {
  Roofline found;
  found.ceiling = ceiling, found.machine = std::move(machine);
  std::vector<std::pair<std::string, Phase>> order;
  std::map<std::pair<std::string, Phase>, std::pair<double, int>> measured;
  int counted = 0;
  for (const auto& rank : ranks) {
    if (rank.rows.empty()) continue;
    ++counted;
    found.on_device = rank.on_device;
    found.step_ms += step_ms(rank.step(), rank), found.idle_ms += step_ms(rank.idle, rank);
    for (const auto& row : rank.rows) {
      if (row.name == "communication") found.communication_ms += step_ms(row.total(), rank);
      if (row.name == "input") found.input_ms += step_ms(row.total(), rank);
      for (size_t i = 1; i < kPhases; ++i) {
        if (row.times[i] == 0) continue;
        const std::pair key(row.name, static_cast<Phase>(i));
        const auto [at, added] = measured.try_emplace(key);
        if (added) order.push_back(key);
        at->second.first += step_ms(row.times[i], rank), ++at->second.second;
      }
    }
  }
  if (counted == 0) return found;
  const double share = 1.0 / counted;
  found.step_ms *= share, found.idle_ms *= share, found.communication_ms *= share, found.input_ms *= share;
  std::stable_partition(order.begin(), order.end(), [](const auto& key) { return key.first != kOutsideBlocks; });
  double inside = 0;
  for (const auto& key : order) {
    const auto& [sum, count] = measured.at(key);
    RooflineRow row{key.first, key.second, sum / count, work(key.first).at(static_cast<size_t>(key.second))};
    if (row.work.flops <= 0) continue;
    inside += sum * share;
    found.rows.push_back(std::move(row));
  }
  found.elsewhere_ms = std::max(0.0, found.step_ms - inside);
  return found;
}

std::vector<Table> roofline_tables(const Roofline& found, size_t top) {
  Table table{
      .title = format("roofline of {}: {}{}", found.machine,
                      found.ceiling.tflops > 0 ? format("{:.3g} TFLOP/s", found.ceiling.tflops) : "peak not known",
                      found.ceiling.bandwidth > 0 ? format(", {:.0f} GB/s", found.ceiling.bandwidth) : ""),
      .rows = {{"part", "phase", "ms", "% of step", "GFLOP", "MB", "FLOP/byte", "GFLOP/s", "bound by", "% of ceiling"}},
      .text_columns = {0, 1, 8}};
  const auto add = [&](const RooflineRow& row) {
    if (row.ms > 0) table.rows.push_back(cells_of(row, found.ceiling, found.step_ms));
  };
  if (found.rows.size() <= top)
    for (const auto& row : found.rows)
      if (row.name != kOutsideBlocks) add(row);
  for (const bool blocks : {true, false})
    for (size_t i = 1; i < kPhases; ++i) add(sum_of(found, static_cast<Phase>(i), blocks));
  table.note = format(
      "a step takes {:.3f} ms, {:.3f} of them elsewhere: update, communication {:.3f}, input {:.3f}, idle {:.3f}",
      found.step_ms, found.elsewhere_ms, found.communication_ms, found.input_ms, found.idle_ms);
  return {table};
}

std::vector<std::string> roofline_advice(const Roofline& found) {
  std::vector<std::pair<double, std::string>> advice;  // by the milliseconds that could be had
  const auto part = [&](double ms) { return found.step_ms > 0 ? 100 * ms / found.step_ms : 0; };
  for (const bool blocks : {true, false})
    for (size_t i = 1; i < kPhases; ++i) {
      const auto sum = sum_of(found, static_cast<Phase>(i), blocks);
      const double least = sum.least_ms(found.ceiling), lost = sum.ms - least;
      if (least <= 0 || lost <= 0) continue;
      const auto who =
          format("The {} {} {} at {:.0f}% of the ceiling, and costs {:.1f}% of a step more than it would there",
                 phase_text(sum.phase), blocks ? "of the blocks" : "outside of blocks", "runs",
                 sum.percent(found.ceiling), part(lost));
      const bool far = sum.percent(found.ceiling) < 50;
      const char* what = sum.by_memory(found.ceiling) ? kByMemory : !far ? kPasses : found.on_device ? kFar : kFarOnCpu;
      advice.emplace_back(lost, who + what + ".");
    }
  const auto add = [&](double ms, const std::string& text) {
    advice.emplace_back(ms, format("{:.1f}% of a step {}", part(ms), text));
  };
  add(found.idle_ms, found.on_device ? "nothing runs: record steps as graphs (--optimize graph), and look at the host."
                                     : "nothing is recorded on the first thread.");
  add(found.communication_ms,
      "is communication: hyperion trace analyze says of which group, and whether it waits for a rank.");
  add(found.input_ms, "waits for input: more data.threads, or prepare the data.");
  constexpr double kLeast = 3;  // percent of a step
  std::erase_if(advice, [&](const auto& each) { return part(each.first) < kLeast; });
  std::stable_sort(advice.begin(), advice.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> texts;
  for (auto& [ms, text] : advice) texts.push_back(std::move(text));
  return texts;
}

base::Json roofline_json(const Roofline& found) {
  base::Json rows = base::Json::array();
  for (const auto& row : found.rows)
    rows.push_back({{"part", row.name},
                    {"phase", phase_text(row.phase)},
                    {"us", 1e3 * row.ms},
                    {"flops", row.work.flops},
                    {"bytes", row.work.bytes},
                    {"tflops", row.tflops()},
                    {"bound_by", row.by_memory(found.ceiling) ? "memory" : "products"},
                    {"percent_of_ceiling",
                     row.least_ms(found.ceiling) > 0 ? base::Json(row.percent(found.ceiling)) : base::Json()}});
  return {{"machine", found.machine},
          {"peak_tflops", found.ceiling.tflops > 0 ? base::Json(found.ceiling.tflops) : base::Json()},
          {"peak_gb_per_s", found.ceiling.bandwidth > 0 ? base::Json(found.ceiling.bandwidth) : base::Json()},
          {"step_us", 1e3 * found.step_ms},
          {"elsewhere_us", 1e3 * found.elsewhere_ms},
          {"idle_us", 1e3 * found.idle_ms},
          {"communication_us", 1e3 * found.communication_ms},
          {"input_us", 1e3 * found.input_ms},
          {"advice", roofline_advice(found)},
          {"rows", std::move(rows)}};
}

}  // namespace hyperion::analysis
