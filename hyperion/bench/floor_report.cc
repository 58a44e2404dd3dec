#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/bench/figures.h"
#include "hyperion/bench/floor.h"
#include "hyperion/report/bars.h"

namespace hyperion::bench {
namespace {

using base::format;
using FloorRows = std::vector<const TrainRow*>;

constexpr std::pair<const char*, double Floor::*> kCauses[] = {{"products", &Floor::products},
                                                               {"attention", &Floor::attention},
                                                               {"norms, activations, loss, all else", &Floor::passing},
                                                               {"gradients' norm and update", &Floor::update}};

// A step's milliseconds by the floor's causes, from its trace.
Floor split_of(const TrainRow& row) {
  Floor split{row.workload, row.precision};
  const auto time = [&](profile::KernelKind kind) { return (*row.kinds)[static_cast<size_t>(kind)]; };
  split.products = time(profile::KernelKind::product), split.attention = time(profile::KernelKind::attention);
  split.update = time(profile::KernelKind::update);
  for (const double all : *row.kinds) split.passing += all;
  split.passing -= split.products + split.attention + split.update;
  return split;
}

FloorRows steps_of(const FloorResult& result, const Floor& floor) {
  FloorRows rows;
  for (const auto& row : result.steps.rows)
    if (row.workload == floor.workload && row.failed.empty()) rows.push_back(&row);
  return rows;
}

// Milliseconds of one cause: at least, and in each of the steps; those are empty where no step was split.
struct Line {
  std::string cause;
  double least = 0;
  std::vector<double> taken;
};

std::vector<Line> lines_of(const Floor& floor, const FloorRows& rows) {
  const bool split = std::all_of(rows.begin(), rows.end(), [](const auto* row) { return row->kinds && row->gaps; });
  std::vector<Line> lines;
  for (const auto& [cause, part] : kCauses) {
    lines.push_back({cause, floor.*part, {}});
    for (const auto* row : rows)
      if (split) lines.back().taken.push_back(split_of(*row).*part);
  }
  if (split) {
    lines.push_back({"nothing ran", 0, {}});
    for (const auto* row : rows)
      lines.back().taken.push_back((row->gaps->window_ms - row->gaps->busy_ms) / static_cast<double>(kTracedSteps));
  }
  lines.push_back({"the whole step", floor.sum(), {}});
  for (const auto* row : rows) lines.back().taken.push_back(1e3 * row->step.median);
  return lines;
}

std::string table_of(const FloorResult& result) {
  std::string table =
      result.steps.device_name + "; milliseconds of a step" + settings_note(result.steps.settings) + "\n";
  for (const auto& floor : result.floors) {
    const auto rows = steps_of(result, floor);
    std::vector<std::vector<std::string>> cells = {{floor.workload + " " + floor.precision, "floor"}};
    for (const auto* row : rows) cells[0].insert(cells[0].end(), {row->mode_text(), "above"});
    for (const auto& line : lines_of(floor, rows)) {
      cells.push_back({line.cause, line.least > 0 ? format("{:.3f}", line.least) : ""});
      for (const double taken : line.taken)
        cells.back().insert(cells.back().end(), {format("{:.3f}", taken), format("{:.3f}", taken - line.least)});
    }
    table += "\n" + aligned(cells);
    if (floor.adapters > 0)
      table += format("Of the floor's products {:.3f} are what the adapters add.\n", floor.adapters);
    if (floor.documents > 0)
      table += format("Attention is within {:.1f} documents a step: {:.1f}% of the pairs of tokens in whole rows.\n",
                      floor.documents, 100 * floor.within);
    if (floor.wholes > 0) table += format("Of all else {:.3f} make weights whole that are in 4 bits.\n", floor.wholes);
  }
  for (const auto& row : result.steps.rows)
    if (!row.failed.empty()) table += format("\n{} {}: {}\n", row.workload, row.mode, row.failed);
  return table + "\nThe step is timed without the trace that splits it.\n";
}

std::string json_of(const FloorResult& result) {
  Figures figures{"floor", result.steps.device_name, {}, result.steps.settings};
  base::Json floors = base::Json::array();
  for (const auto& floor : result.floors) {
    const auto rows = steps_of(result, floor);
    figures.list.push_back(single_figure(case_name(floor.workload, "floor", floor.precision), "ms", floor.sum(), true));
    base::Json causes = base::Json::array(), modes = base::Json::array();
    for (const auto& line : lines_of(floor, rows))
      causes.push_back({{"cause", line.cause}, {"floor_ms", line.least}, {"step_ms", line.taken}});
    for (const auto* row : rows) {
      modes.push_back(row->mode);
      figures.list.push_back(
          time_figure(case_name(floor.workload, row->mode, row->precision) + " step", "ms", row->step, 1e3));
    }
    floors.push_back({{"workload", floor.workload},
                      {"precision", floor.precision},
                      {"copy_gb_s", floor.copy_gb_s},
                      {"adapters_ms", floor.adapters},
                      {"whole_weights_ms", floor.wholes},
                      {"documents", floor.documents},
                      {"within_documents", floor.within},
                      {"modes", modes},
                      {"causes", causes}});
  }
  auto json = result_json(figures);
  json["floors"] = floors;
  return json.dump(2) + "\n";
}

std::string csv_of(const FloorResult& result) {
  std::vector<std::vector<std::string>> csv = {{"workload", "precision", "mode", "cause", "floor_ms", "step_ms"}};
  for (const auto& floor : result.floors) {
    const auto rows = steps_of(result, floor);
    for (const auto& line : lines_of(floor, rows))
      for (size_t i = 0; i < line.taken.size(); ++i)
        csv.push_back({floor.workload, floor.precision, rows[i]->mode, line.cause, format("{:.6g}", line.least),
                       format("{:.6g}", line.taken[i])});
  }
  return csv_text(csv);
}

std::string svg_of(const FloorResult& result, const Floor& floor) {
  const auto rows = steps_of(result, floor);
  std::vector<report::BarGroup> groups;
  for (const auto& line : lines_of(floor, rows)) {
    const auto text = [](double ms) { return format("{:.2f} ms", ms); };
    groups.push_back({line.cause, {}});
    if (line.least > 0) groups.back().bars.push_back({"floor", line.least, text(line.least), 1});
    for (size_t i = 0; i < line.taken.size(); ++i)
      groups.back().bars.push_back({rows[i]->mode_text(), line.taken[i], text(line.taken[i]), 0});
  }
  return report::bars_svg(format("A step of {} and its floor on {}", floor.workload, result.steps.device_name), groups,
                          report::BarScale::shared);
}

}  // namespace

Outcome floor_outcome(const FloorResult& result) {
  Outcome outcome{"floor", table_of(result), json_of(result), csv_of(result), {}};
  for (const auto& floor : result.floors)
    outcome.pictures.emplace_back(format("floor.{}.svg", floor.workload), svg_of(result, floor));
  return outcome;
}

}  // namespace hyperion::bench
