#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/bench/figures.h"
#include "hyperion/bench/train.h"
#include "hyperion/report/bars.h"

namespace hyperion::bench {
namespace {

using base::format;

std::string or_blank(double value, const char* blank, const std::string& text) { return value > 0 ? text : blank; }

std::string mebibytes(int64_t bytes) {
  return or_blank(static_cast<double>(bytes), "", format("{:.0f}", static_cast<double>(bytes) / 0x1p20));
}

// The fastest of ours on the row's workload; null where none ran.
const TrainRow* best_of_ours(const TrainResult& result, const TrainRow& row) {
  const TrainRow* best = nullptr;
  for (const auto& other : result.rows)
    if (!other.peer() && other.failed.empty() && other.workload == row.workload &&
        (best == nullptr || other.step.median < best->step.median))
      best = &other;
  return best;
}

std::string versus(const TrainResult& result, const TrainRow& row) {
  const auto* ours = best_of_ours(result, row);
  return row.peer() && ours != nullptr ? format("{:.2f}x", row.step.median / ours->step.median) : "";
}

std::string table_of(const TrainResult& result) {
  std::vector<std::vector<std::string>> rows = {{"workload", "mode", "precision", "ms a step", "+-", "first s",
                                                 "samples/s", "tokens/s", "TFLOP/s", "MFU", "MHz", "peak MiB",
                                                 "theirs/ours"}};
  std::string failures;
  for (const auto& row : result.rows) {
    if (!row.failed.empty()) {
      rows.push_back({row.workload, row.mode, row.precision, "-"});
      failures += format("{} {}: {}\n", row.workload, row.mode, row.failed);
      continue;
    }
    rows.push_back({row.workload, row.mode_text(), row.precision, format("{:.3f}", 1e3 * row.step.median),
                    noise_text(row.step), format("{:.2f}", row.first_step), format("{:.1f}", row.samples_s),
                    or_blank(row.tokens_s, "", base::with_commas(static_cast<int64_t>(row.tokens_s))),
                    format("{:.4g}", row.tflops), or_blank(row.mfu, "", format("{:.1f}%", 100 * row.mfu)),
                    row.clock > 0 ? format("{}", row.clock) : "", mebibytes(row.peak), versus(result, row)});
  }
  return aligned(rows, {0, 1, 2}) + (failures.empty() ? "" : "\nno figures:\n" + failures);
}

std::string gaps_of(const TrainResult& result) {
  std::vector<std::vector<std::string>> rows = {
      {"gaps between kernels", "mode", "over 3 us", "all", "ms a step", "traced", "kernels'", "longest us", "between"}};
  for (const auto& row : result.rows) {
    if (!row.gaps) continue;
    const auto& gaps = *row.gaps;
    const bool any = !gaps.longest.empty();
    const auto steps = static_cast<double>(kTracedSteps);
    rows.push_back({row.workload, row.mode, format("{:.2f}%", gaps.long_percent), format("{:.2f}%", gaps.all_percent),
                    format("{:.3f}", 1e3 * row.step.median), format("{:.3f}", gaps.window_ms / steps),
                    format("{:.3f}", gaps.busy_ms / steps),
                    any ? format("{:.1f}", static_cast<double>(gaps.longest[0].nanoseconds) / 1e3) : "",
                    any ? profile::short_kernel_name(gaps.longest[0].before) + " -> " +
                              profile::short_kernel_name(gaps.longest[0].after)
                        : ""});
  }
  return rows.size() > 1 ? "\n" + aligned(rows, {0, 1, 8}) : "";
}

// What a step's kernels are for; kinds that no row has are left out.
std::string kinds_of(const TrainResult& result) {
  std::vector<std::vector<std::string>> rows = {{"ms of kernels", "mode"}};
  for (const auto kind : profile::kKernelKinds) {
    const auto time = [&](const TrainRow& row) { return row.kinds ? (*row.kinds)[static_cast<size_t>(kind)] : 0; };
    if (std::none_of(result.rows.begin(), result.rows.end(), [&](const auto& row) { return time(row) > 0; })) continue;
    rows[0].push_back(profile::kind_text(kind));
    size_t line = 0;
    for (const auto& row : result.rows) {
      if (!row.kinds) continue;
      if (++line == rows.size()) rows.push_back({row.workload, row.mode});
      rows[line].push_back(format("{:.3f}", time(row)));
    }
  }
  return rows.size() > 1 ? "\n" + aligned(rows, {0, 1}) : "";
}

// A layer's three products in bf16 and in 8 bits, what rounding its matrices costs where no other pass does it, and the
// gain of both together.
std::string fp8_of(const TrainResult& result) {
  std::vector<std::vector<std::string>> rows = {{"in 8 bits", "layers", "rows", "in", "out", "bf16 us", "fp8 us",
                                                 "rounding us", "bf16/fp8", "with rounding", "taken"}};
  for (const auto& row : result.rows)
    for (const auto& layer : row.fp8) {
      const bool measured = layer.wide > 0;
      const auto figure = [&](double value) { return measured ? format("{:.1f}", value) : "not measured"; };
      rows.push_back({layer.name, format("{}", layer.count), format("{}", layer.rows), format("{}", layer.in),
                      format("{}", layer.out), figure(layer.wide), figure(layer.narrow), figure(layer.rounding),
                      measured ? format("{:.2f}x", layer.wide / layer.narrow) : "",
                      measured ? format("{:.2f}x", layer.wide / (layer.narrow + layer.rounding)) : "",
                      layer.taken ? "yes"
                      : measured  ? "no: slower"
                                  : "no: a side is no multiple of 16"});
    }
  return rows.size() > 1 ? "\n" + aligned(rows, {0}) : "";
}

base::Json gaps_json(const profile::Gaps& gaps) {
  base::Json longest = base::Json::array();
  for (const auto& gap : gaps.longest)
    longest.push_back(
        {{"us", static_cast<double>(gap.nanoseconds) / 1e3}, {"before", gap.before}, {"after", gap.after}});
  return {{"over_3us_percent", gaps.long_percent},
          {"all_percent", gaps.all_percent},
          {"window_ms", gaps.window_ms},
          {"busy_ms", gaps.busy_ms},
          {"count", gaps.count},
          {"over_3us", gaps.long_count},
          {"longest", longest}};
}

base::Json row_json(const TrainRow& row) {
  base::Json json = {{"workload", row.workload}, {"mode", row.mode}, {"precision", row.precision}};
  if (!row.failed.empty()) {
    json["failed"] = row.failed;
    return json;
  }
  const auto known = [](double value) { return value > 0 ? base::Json(value) : base::Json(nullptr); };
  if (!row.ran_as.empty()) json["ran_as"] = row.ran_as;
  json.update({{"step_ms", 1e3 * row.step.median},
               {"step_ms_low", 1e3 * row.step.low},
               {"step_ms_high", 1e3 * row.step.high},
               {"blocks", row.step.repeats},
               {"first_step_s", row.first_step},
               {"parameters", row.parameters},
               {"trained", row.trained},
               {"samples_per_s", row.samples_s},
               {"tokens_per_s", known(row.tokens_s)},
               {"tflops", row.tflops},
               {"mfu", known(row.mfu)},
               {"peak_bytes", known(static_cast<double>(row.peak))},
               {"sm_clock_mhz", known(static_cast<double>(row.clock))},
               {"first_loss", row.first_loss},
               {"last_loss", row.last_loss}});
  for (const auto& layer : row.fp8)
    json["fp8"].push_back({{"layer", layer.name},
                           {"count", layer.count},
                           {"rows", layer.rows},
                           {"in", layer.in},
                           {"out", layer.out},
                           {"bf16_us", known(layer.wide)},
                           {"fp8_us", known(layer.narrow)},
                           {"rounding_us", known(layer.rounding)},
                           {"taken", layer.taken}});
  if (row.gaps) json["gaps"] = gaps_json(*row.gaps);
  if (row.kinds)
    for (const auto kind : profile::kKernelKinds)
      json["kernels_ms"][profile::kind_text(kind)] = (*row.kinds)[static_cast<size_t>(kind)];
  return json;
}

std::string json_of(const TrainResult& result) {
  Figures figures{"train", result.device_name, {}, result.settings};
  base::Json rows = base::Json::array();
  for (const auto& row : result.rows) {
    const std::string name = case_name(row.workload, row.mode, row.precision);
    if (row.failed.empty()) {
      figures.list.push_back(time_figure(name + " step", "ms", row.step, 1e3));
      if (row.peak > 0)
        figures.list.push_back(single_figure(name + " peak", "MiB", static_cast<double>(row.peak) / 0x1p20, true));
    } else {
      figures.list.push_back(single_figure(name + " step", "ms", {}, true));
    }
    rows.push_back(row_json(row));
  }
  auto json = result_json(figures);
  json["steps"] = result.steps, json["rows"] = rows, json["notes"] = result.notes;
  return json.dump(2) + "\n";
}

std::string csv_of(const TrainResult& result) {
  std::vector<std::vector<std::string>> rows = {{"workload", "mode", "precision", "step_ms", "step_ms_low",
                                                 "step_ms_high", "first_step_s", "samples_per_s", "tokens_per_s",
                                                 "tflops", "mfu", "peak_bytes", "ran_as", "failed"}};
  for (const auto& row : result.rows) {
    if (!row.failed.empty()) {
      rows.push_back({row.workload, row.mode, row.precision, "", "", "", "", "", "", "", "", "", "", row.failed});
      continue;
    }
    rows.push_back({row.workload, row.mode, row.precision, format("{:.6g}", 1e3 * row.step.median),
                    format("{:.6g}", 1e3 * row.step.low), format("{:.6g}", 1e3 * row.step.high),
                    format("{:.6g}", row.first_step), format("{:.6g}", row.samples_s), format("{:.6g}", row.tokens_s),
                    format("{:.6g}", row.tflops), format("{:.4g}", row.mfu), format("{}", row.peak), row.ran_as, ""});
  }
  return csv_text(rows);
}

std::string svg_of(const TrainResult& result) {
  std::vector<report::BarGroup> groups;
  for (const auto& row : result.rows) {
    if (groups.empty() || groups.back().name != row.workload) groups.push_back({row.workload, {}});
    const bool failed = !row.failed.empty();
    groups.back().bars.push_back({row.mode_text(), failed ? -1 : row.step.median,
                                  failed ? "no figures" : format("{:.2f} ms", 1e3 * row.step.median),
                                  row.peer() ? 1 : 0});
  }
  return report::bars_svg("Milliseconds a training step on " + result.device_name, groups);
}

// Blocks of documents are longer than others.
std::string blocks_of_rows(const TrainResult& result) {
  std::set<int64_t> sizes;
  for (const auto& row : result.rows)
    if (row.failed.empty()) sizes.insert(row.block_steps);
  std::string text;
  for (const int64_t size : sizes) text += (text.empty() ? "" : "; documents: ") + blocks_text(result.steps, size);
  return text.empty() ? "nothing was timed" : text;
}

}  // namespace

Outcome train_outcome(const TrainResult& result) {
  std::string table =
      format("{}; {}{}\n\n{}{}", result.device_name, blocks_of_rows(result), settings_note(result.settings),
             table_of(result), fp8_of(result) + kinds_of(result) + gaps_of(result));
  for (const auto& note : result.notes) table += "note: " + note + "\n";
  return {"train", table, json_of(result), csv_of(result), {{"train.svg", svg_of(result)}}};
}

}  // namespace hyperion::bench
