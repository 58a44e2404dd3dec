#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/bench/figures.h"
#include "hyperion/bench/floor.h"

namespace hyperion::bench {
namespace {

using base::format;

// A step's milliseconds by the floor's causes, from its trace.
Floor split_of(const TrainRow& row) {
  Floor split{row.workload, row.precision};
  if (!row.kinds) return split;
  const auto time = [&](profile::KernelKind kind) { return (*row.kinds)[static_cast<size_t>(kind)]; };
  split.products = time(profile::KernelKind::product), split.attention = time(profile::KernelKind::attention);
  split.update = time(profile::KernelKind::update);
  for (const double all : *row.kinds) split.passing += all;
  split.passing -= split.products + split.attention + split.update;
  return split;
}

constexpr std::pair<const char*, double Floor::*> kCauses[] = {{"products", &Floor::products},
                                                               {"attention", &Floor::attention},
                                                               {"norms, activations, loss, all else", &Floor::passing},
                                                               {"gradients' norm and update", &Floor::update}};

}  // namespace

Outcome floor_outcome(const FloorResult& result) {
  std::string table = result.steps.device_name + "; milliseconds of a step\n";
  base::Json json_floors = base::Json::array();
  Figures figures{"floor", result.steps.device_name, {}};
  std::vector<std::vector<std::string>> csv = {{"workload", "precision", "mode", "cause", "floor_ms", "step_ms"}};
  for (const auto& floor : result.floors) {
    std::vector<const TrainRow*> rows;
    std::vector<std::vector<std::string>> cells = {{floor.workload + " " + floor.precision, "floor"}};
    for (const auto& row : result.steps.rows) {
      if (row.workload != floor.workload) continue;
      if (!row.failed.empty()) {
        table += format("\n{} {}: {}\n", row.workload, row.mode, row.failed);
        continue;
      }
      rows.push_back(&row);
      cells[0].insert(cells[0].end(), {row.mode, "above"});
    }
    const auto add = [&](const char* cause, double least, const std::function<double(const TrainRow&)>& time) {
      std::vector<std::string> line = {cause, least > 0 ? format("{:.3f}", least) : ""};
      for (const auto* row : rows) {
        line.insert(line.end(), {format("{:.3f}", time(*row)), format("{:.3f}", time(*row) - least)});
        csv.push_back(
            {floor.workload, floor.precision, row->mode, cause, format("{:.6g}", least), format("{:.6g}", time(*row))});
      }
      cells.push_back(std::move(line));
    };
    const bool traced = std::all_of(rows.begin(), rows.end(), [](const auto* row) { return row->kinds.has_value(); });
    for (const auto& [cause, part] : kCauses)
      if (traced)
        add(cause, floor.*part, [part = part](const TrainRow& row) { return split_of(row).*part; });
      else
        cells.push_back({cause, format("{:.3f}", floor.*part)});
    if (traced)
      add("nothing ran", 0, [](const TrainRow& row) {
        return row.gaps ? (row.gaps->window_ms - row.gaps->busy_ms) / static_cast<double>(kTracedSteps) : 0;
      });
    add("the whole step", floor.sum(), [](const TrainRow& row) { return 1e3 * row.step.median; });
    table += "\n" + aligned(cells);
    base::Json json = {{"workload", floor.workload},      {"precision", floor.precision},
                       {"copy_gb_s", floor.copy_gb_s},    {"products_ms", floor.products},
                       {"attention_ms", floor.attention}, {"passing_ms", floor.passing},
                       {"update_ms", floor.update},       {"floor_ms", floor.sum()}};
    figures.list.push_back(single_figure(floor.workload + " floor", "ms", floor.sum(), true));
    for (const auto* row : rows) {
      const auto split = split_of(*row);
      json["steps"].push_back({{"mode", row->mode},
                               {"step_ms", 1e3 * row->step.median},
                               {"products_ms", split.products},
                               {"attention_ms", split.attention},
                               {"passing_ms", split.passing},
                               {"update_ms", split.update}});
      figures.list.push_back(time_figure(floor.workload + " " + row->mode + " step", "ms", row->step, 1e3));
    }
    json_floors.push_back(json);
  }
  table += "\nThe step is timed without the trace that splits it.\n";
  auto json = result_json(figures);
  json["floors"] = json_floors;
  return {"floor", table, json.dump(2) + "\n", csv_text(csv), {}};
}

}  // namespace hyperion::bench
