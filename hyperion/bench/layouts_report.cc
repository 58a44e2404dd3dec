#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/bench/figures.h"
#include "hyperion/bench/layouts.h"
#include "hyperion/report/bars.h"

namespace hyperion::bench {
namespace {

using base::format;

constexpr const char* kCollectives[] = {"all-gather", "reduce-scatter", "all-reduce", "send", "other"};

bool has_figures(const LayoutRow& row) { return row.figures.failed.empty(); }
std::string size_cell(double bytes) { return bytes > 0 ? base::bytes_text(static_cast<uint64_t>(bytes)) : ""; }
std::string part_cell(const std::optional<double>& part) { return part ? format("{:.1f}%", 100 * *part) : "-"; }

// Of the first row's state a rank, how much less this one's is.
std::optional<double> state_less(const LayoutResult& result, const LayoutRow& row) {
  const auto& first = result.rows.front();
  if (!row.has_ranks || !first.has_ranks || first.figures.state == 0) return {};
  return 1 - static_cast<double>(row.figures.state) / static_cast<double>(first.figures.state);
}

std::vector<std::string> name_cells(const LayoutRow& row) {
  return {row.layout, row.zero, row.optimize, row.batch > 0 ? format("{:g}", row.batch) : ""};
}

std::string layouts_table(const LayoutResult& result) {
  const bool stages = std::any_of(result.rows.begin(), result.rows.end(), [](auto& row) { return row.bubble; });
  std::vector<std::vector<std::string>> rows = {{"layout", "zero", "optimize", "batch", "peak", "state", "less",
                                                 "tokens/s", "step ms", "+-", "MFU", "wall", "loss", "accuracy"}};
  if (stages) rows[0].insert(rows[0].end(), {"bubble", "waited"});
  for (const auto& row : result.rows) {
    auto cells = name_cells(row);
    const auto& figures = row.figures;
    if (has_figures(row))
      cells.insert(cells.end(),
                   {size_cell(static_cast<double>(figures.peak)),
                    row.has_ranks ? size_cell(static_cast<double>(figures.state)) : "-",
                    &row == &result.rows.front() ? "" : part_cell(state_less(result, row)),
                    base::with_commas(static_cast<int64_t>(figures.tokens_s)),
                    format("{:.1f}", 1e3 * figures.step.median), noise_text(figures.step), part_cell(row.mfu),
                    base::duration_text(row.seconds), format("{:.4f}", figures.loss), part_cell(row.accuracy)});
    else
      cells.push_back("-");
    if (stages && has_figures(row) && row.bubble)
      cells.insert(cells.end(), {part_cell(row.bubble), part_cell(row.waited)});
    rows.push_back(std::move(cells));
  }
  return aligned(rows, {0, 2});
}

std::string sent_table(const LayoutResult& result) {
  std::vector<std::vector<std::string>> rows = {{"layout", "zero", "optimize", "batch", "axis"}};
  for (const char* kind : kCollectives) rows[0].emplace_back(kind);
  rows[0].insert(rows[0].end(), {"under way", "waited"});
  for (const auto& row : result.rows)
    for (const auto& axis : row.traffic) {
      auto cells = name_cells(row);
      cells.push_back(axis.axis);
      for (const char* kind : kCollectives) {
        const auto found = axis.bytes.find(kind);
        cells.push_back(found == axis.bytes.end() ? "" : size_cell(found->second));
      }
      cells.insert(cells.end(), {part_cell(axis.under_way), part_cell(axis.waited)});
      rows.push_back(std::move(cells));
    }
  return rows.size() == 1
             ? ""
             : "\nsent by a rank in a step, by axis; parts of the step's time\n" + aligned(rows, {0, 2, 4});
}

std::string layout_notes(const LayoutResult& result) {
  std::string failed, without;
  for (const auto& row : result.rows) {
    if (!has_figures(row)) failed += format("{}: {}\n", row.name(), row.figures.failed);
    if (has_figures(row) && !row.has_ranks) without += format("{}{}", without.empty() ? "" : ", ", row.run);
  }
  if (!failed.empty()) failed = "\nno figures:\n" + failed;
  if (!without.empty())
    without = format("\nno ranks.json, so that state and bytes by axis are not known: {}\n", without);
  return failed + without;
}

template <class Parts>
std::string layout_bars(const LayoutResult& result, const char* title, report::BarScale scale, const Parts& parts) {
  std::vector<report::BarGroup> groups;
  for (const auto& row : result.rows) {
    if (!has_figures(row)) continue;
    report::BarGroup group{row.name(), {}};
    int color = 0;
    for (auto& [name, value, shown] : parts(row)) group.bars.push_back({name, value, shown, color++});
    groups.push_back(std::move(group));
  }
  return report::bars_svg(title, groups, scale);
}

using Part = std::tuple<std::string, double, std::string>;

std::vector<std::pair<std::string, std::string>> layout_pictures(const LayoutResult& result) {
  const auto size = [](const char* name, double bytes) {
    return Part{name, bytes, base::bytes_text(static_cast<uint64_t>(bytes))};
  };
  const auto time = [](const char* name, double seconds) {
    return Part{name, seconds, format("{:.1f} ms", 1e3 * seconds)};
  };
  using report::BarScale;
  return {{"memory.svg", layout_bars(result, "Memory of a rank", BarScale::shared,
                                     [&](const LayoutRow& row) {
                                       const auto& of = row.figures;
                                       return std::vector<Part>{
                                           size("peak", static_cast<double>(of.peak)),
                                           size("weights, gradients, optimizer", static_cast<double>(of.state))};
                                     })},
          {"speed.svg",
           layout_bars(result, "Speed of all ranks", BarScale::shared,
                       [&](const LayoutRow& row) {
                         const double speed = row.figures.tokens_s;
                         return std::vector<Part>{{"tokens/s", speed, base::with_commas(static_cast<int64_t>(speed))}};
                       })},
          {"bytes.svg", layout_bars(result, "Sent by a rank a step", BarScale::shared,
                                    [&](const LayoutRow& row) {
                                      std::vector<Part> parts;
                                      for (const auto& axis : row.traffic) {
                                        double sum = 0;
                                        for (const auto& [kind, bytes] : axis.bytes) sum += bytes;
                                        parts.push_back(size(axis.axis.c_str(), sum));
                                      }
                                      return parts;
                                    })},
          {"communication.svg", layout_bars(result, "A step: computing, waiting for others, and what was hidden",
                                            BarScale::group, [&](const LayoutRow& row) {
                                              const auto& of = row.figures;
                                              return std::vector<Part>{
                                                  time("computing", of.computing), time("waiting", of.exposed),
                                                  time("hidden", std::max(0.0, of.under_way - of.exposed))};
                                            })}};
}

base::Json or_null(const std::optional<double>& value) { return value ? base::Json(*value) : base::Json(nullptr); }

base::Json layout_json(const LayoutResult& result, const LayoutRow& row) {
  const auto& of = row.figures;
  base::Json json = {{"layout", row.layout}, {"zero", row.zero}, {"optimize", row.optimize},
                     {"batch", row.batch},   {"run", row.run},   {"ranks", of.ranks}};
  if (!has_figures(row)) {
    json["failed"] = of.failed;
    return json;
  }
  base::Json traffic = base::Json::array();
  for (const auto& axis : row.traffic)
    traffic.push_back(
        {{"axis", axis.axis}, {"bytes_a_step", axis.bytes}, {"under_way", axis.under_way}, {"waited", axis.waited}});
  json.update({{"step_s", of.step.median},
               {"step_s_low", of.step.low},
               {"step_s_high", of.step.high},
               {"tokens_per_s", of.tokens_s},
               {"peak_bytes", of.peak},
               {"state_bytes", row.has_ranks ? base::Json(of.state) : base::Json(nullptr)},
               {"state_less", or_null(state_less(result, row))},
               {"mfu", or_null(row.mfu)},
               {"seconds", row.seconds},
               {"loss", of.loss},
               {"accuracy", or_null(row.accuracy)},
               {"bubble", or_null(row.bubble)},
               {"pipeline_waited", or_null(row.waited)},
               {"comm_exposed_s", of.exposed},
               {"comm_total_s", of.under_way},
               {"sent_bytes_a_step", of.bytes},
               {"traffic", std::move(traffic)}});
  return json;
}

// What is a number or text in the JSON, a line a row.
std::string layouts_csv(const base::Json& rows) {
  const std::vector<std::string> names = {"layout",
                                          "zero",
                                          "optimize",
                                          "batch",
                                          "ranks",
                                          "step_s",
                                          "tokens_per_s",
                                          "peak_bytes",
                                          "state_bytes",
                                          "state_less",
                                          "mfu",
                                          "seconds",
                                          "loss",
                                          "accuracy",
                                          "bubble",
                                          "pipeline_waited",
                                          "sent_bytes_a_step",
                                          "failed"};
  std::vector<std::vector<std::string>> cells = {names};
  for (const auto& row : rows) {
    auto& line = cells.emplace_back();
    for (const auto& name : names) {
      const auto value = row.value(name, base::Json(nullptr));
      line.push_back(value.is_null() ? "" : value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
  return csv_text(cells);
}

}  // namespace

Outcome layouts_outcome(const LayoutResult& result) {
  Outcome outcome{"scaling", {}, {}, {}, {}};
  outcome.table = format("{} on {}\n", result.what, result.device) + layouts_table(result) + sent_table(result) +
                  layout_notes(result);
  Figures figures{"scaling", result.device, {}};
  base::Json rows = base::Json::array();
  for (const auto& row : result.rows) {
    rows.push_back(layout_json(result, row));
    if (has_figures(row))
      figures.list.push_back(time_figure(row.name(), "ms", row.figures.step, 1e3));
    else
      figures.list.push_back({row.name(), "ms", {}});
  }
  outcome.csv = layouts_csv(rows);
  auto json = result_json(figures);
  json.update({{"of", result.what}, {"rows", std::move(rows)}});
  outcome.json = json.dump(2) + "\n";
  outcome.pictures = layout_pictures(result);
  return outcome;
}

}  // namespace hyperion::bench
