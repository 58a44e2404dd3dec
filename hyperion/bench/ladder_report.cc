#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/bench/figures.h"
#include "hyperion/bench/ladder.h"
#include "hyperion/report/bars.h"

namespace hyperion::bench {
namespace {

using base::format;
using profile::Phase;
using TableRows = std::vector<std::vector<std::string>>;

constexpr size_t kShownKernels = 8;
constexpr std::pair<Phase, const char*> kPhases[] = {
    {Phase::forward, "forward"}, {Phase::backward, "backward"}, {Phase::optimizer, "optimizer"}};

std::string phase_text(const Rung& rung, Phase phase) {
  if (!rung.phases) return "";
  return format("{:.3f}{}", (*rung.phases)[static_cast<size_t>(phase)], rung.phases_from_kernels ? "*" : "");
}

bool ran_as_itself(const Rung& rung) { return rung.up() && rung.row.ran_as.empty(); }

// Over the lowest rung that stands. None where another mode ran in the rung's place: it would be noise.
std::optional<double> speedup(const Ladder& ladder, const Rung& rung) {
  const auto ground = std::find_if(ladder.rungs.begin(), ladder.rungs.end(), ran_as_itself);
  if (ground == ladder.rungs.end() || !ran_as_itself(rung)) return {};
  return ground->row.step.median / rung.row.step.median;
}

std::string speedup_text(const Ladder& ladder, const Rung& rung) {
  const auto gain = speedup(ladder, rung);
  return gain ? format("{:.2f}x", *gain) : "";
}

std::string peak_mebibytes(int64_t bytes) {
  return bytes > 0 ? format("{:.0f}", static_cast<double>(bytes) / 0x1p20) : "";
}

std::string rung_table(const Ladder& ladder) {
  TableRows rows = {{"rung", "forward ms", "backward ms", "optimizer ms", "total ms", "+-", "peak MiB",
                     "kernels a step", "gaps over 3 us", "speedup"}};
  std::string refused;
  bool from_kernels = false;
  for (const auto& rung : ladder.rungs) {
    const auto& row = rung.row;
    if (!rung.up()) {
      rows.push_back({row.mode, "", "", "", "-"});
      refused += format("{}: {}\n", row.mode, row.failed);
      continue;
    }
    from_kernels |= rung.phases_from_kernels;
    rows.push_back({row.mode_text(), phase_text(rung, Phase::forward), phase_text(rung, Phase::backward),
                    phase_text(rung, Phase::optimizer), format("{:.3f}", 1e3 * row.step.median), noise_text(row.step),
                    peak_mebibytes(row.peak), rung.launches > 0 ? format("{}", rung.launches) : "",
                    row.gaps ? format("{:.2f}%", row.gaps->long_percent) : "", speedup_text(ladder, rung)});
  }
  std::string text = aligned(rows);
  if (from_kernels) text += "* told from the order of kernels in a trace: a graph has no marks inside\n";
  return text + (refused.empty() ? "" : "\nno figures:\n" + refused);
}

// Top kernels of two rungs side by side.
std::string why(const Rung& before, const Rung& after) {
  std::string text = format("\n{} -> {}: {:.3f} -> {:.3f} ms ({:.2f}x), {} -> {} kernels a step", before.row.mode,
                            after.row.mode, 1e3 * before.row.step.median, 1e3 * after.row.step.median,
                            before.row.step.median / after.row.step.median, before.launches, after.launches);
  if (before.row.gaps && after.row.gaps)
    text += format(", idle {:.1f}% -> {:.1f}%", before.row.gaps->all_percent, after.row.gaps->all_percent);
  TableRows rows = {{"  most time before", "ms", "calls", "most time after", "ms", "calls"}};
  for (size_t i = 0; i < kShownKernels && i < std::max(before.kernels.size(), after.kernels.size()); ++i) {
    std::vector<std::string> cells;
    for (const auto* rung : {&before, &after}) {
      const bool there = i < rung->kernels.size();
      std::string name = there ? rung->kernels[i].name : "";
      if (name.size() > 48) name = name.substr(0, 20) + ".." + name.substr(name.size() - 26);
      cells.push_back((rung == &before ? "  " : "") + name);
      cells.push_back(there ? format("{:.3f}", rung->kernels[i].milliseconds) : "");
      cells.push_back(there ? format("{}", rung->kernels[i].count) : "");
    }
    rows.push_back(std::move(cells));
  }
  return text + "\n" + aligned(rows, {0, 3});
}

std::string reasons(const Ladder& ladder) {
  std::string text;
  const Rung* below = nullptr;
  for (const auto& rung : ladder.rungs) {
    if (!rung.up() || !rung.row.ran_as.empty() || rung.kernels.empty()) continue;
    if (below != nullptr) text += why(*below, rung);
    below = &rung;
  }
  return text;
}

base::Json rung_json(const Ladder& ladder, const Rung& rung) {
  const auto& row = rung.row;
  base::Json json = {{"mode", row.mode}, {"precision", row.precision}};
  if (!rung.up()) {
    json["failed"] = row.failed;
    return json;
  }
  if (!row.ran_as.empty()) json["ran_as"] = row.ran_as;
  const auto gain = speedup(ladder, rung);
  json.update({{"step_ms", 1e3 * row.step.median},
               {"step_ms_low", 1e3 * row.step.low},
               {"step_ms_high", 1e3 * row.step.high},
               {"first_step_s", row.first_step},
               {"peak_bytes", row.peak > 0 ? base::Json(row.peak) : base::Json(nullptr)},
               {"speedup", gain ? base::Json(*gain) : base::Json(nullptr)},
               {"last_loss", row.last_loss},
               {"phases_from", !rung.phases               ? ""
                               : rung.phases_from_kernels ? "order of kernels"
                                                          : "marks"}});
  for (const auto& [phase, name] : kPhases)
    json[std::string(name) + "_ms"] =
        rung.phases ? base::Json((*rung.phases)[static_cast<size_t>(phase)]) : base::Json(nullptr);
  if (row.gaps) {
    json["kernels_a_step"] = rung.launches;
    json["gaps_over_3us_percent"] = row.gaps->long_percent, json["gaps_percent"] = row.gaps->all_percent;
    base::Json kernels = base::Json::array();
    for (size_t i = 0; i < rung.kernels.size() && i < 40; ++i)
      kernels.push_back(
          {{"name", rung.kernels[i].name}, {"ms", rung.kernels[i].milliseconds}, {"calls", rung.kernels[i].count}});
    json["kernels"] = kernels;
  }
  return json;
}

void add_figures(Figures& figures, const Ladder& ladder) {
  for (const auto& rung : ladder.rungs) {
    const auto name = case_name(ladder.workload, rung.row.mode, rung.row.precision);
    figures.list.push_back(rung.up() ? time_figure(name + " step", "ms", rung.row.step, 1e3)
                                     : single_figure(name + " step", "ms", {}, true));
    if (rung.row.peak > 0)
      figures.list.push_back(single_figure(name + " peak", "MiB", static_cast<double>(rung.row.peak) / 0x1p20, true));
  }
}

std::string csv_of(const std::vector<Ladder>& ladders) {
  TableRows rows = {{"workload", "mode", "forward_ms", "backward_ms", "optimizer_ms", "step_ms", "step_ms_low",
                     "step_ms_high", "peak_bytes", "speedup", "ran_as", "failed"}};
  for (const auto& ladder : ladders) {
    for (const auto& rung : ladder.rungs) {
      std::vector<std::string> row = {ladder.workload, rung.row.mode};
      for (const auto& [phase, name] : kPhases)
        row.push_back(rung.phases ? format("{:.6g}", (*rung.phases)[static_cast<size_t>(phase)]) : "");
      for (const double seconds : {rung.row.step.median, rung.row.step.low, rung.row.step.high})
        row.push_back(rung.up() ? format("{:.6g}", 1e3 * seconds) : "");
      row.push_back(rung.row.peak > 0 ? format("{}", rung.row.peak) : "");
      const auto gain = speedup(ladder, rung);
      row.push_back(gain ? format("{:.4g}", *gain) : "");
      row.push_back(rung.row.ran_as);
      row.push_back(rung.row.failed);
      rows.push_back(std::move(row));
    }
  }
  return csv_text(rows);
}

std::string svg_of(const std::vector<Ladder>& ladders) {
  std::vector<report::BarGroup> groups;
  for (const auto& ladder : ladders) {
    groups.push_back({ladder.workload, {}});
    for (const auto& rung : ladder.rungs) {
      const auto gain = speedup_text(ladder, rung);
      const auto time = format("{:.2f} ms{}{}", 1e3 * rung.row.step.median, gain.empty() ? "" : ", ", gain);
      groups.back().bars.push_back(
          {rung.row.mode_text(), rung.up() ? rung.row.step.median : -1, rung.up() ? time : "no figures", 0});
    }
  }
  return report::bars_svg("Milliseconds a training step on " + ladders.at(0).device_name, groups);
}

std::string heading(const Ladder& ladder) {
  const auto timed = std::find_if(ladder.rungs.begin(), ladder.rungs.end(), [](const Rung& rung) { return rung.up(); });
  return format("{} on {}, {}; {}{}{}\n\n", ladder.workload, ladder.device_name, ladder.rungs.at(0).row.precision,
                timed == ladder.rungs.end() ? "nothing was timed" : blocks_text(ladder.steps, timed->row.block_steps),
                settings_note(ladder.settings), ladder.stopped ? "; stopped before the last rung" : "");
}

}  // namespace

Outcome ladder_outcome(const Ladder& ladder) {
  Figures figures{"ladder", ladder.device_name, {}, ladder.settings};
  add_figures(figures, ladder);
  auto json = result_json(figures);
  json["workload"] = ladder.workload, json["steps"] = ladder.steps, json["rungs"] = base::Json::array();
  for (const auto& rung : ladder.rungs) json["rungs"].push_back(rung_json(ladder, rung));
  return {"ladder",
          heading(ladder) + rung_table(ladder) + reasons(ladder),
          json.dump(2) + "\n",
          csv_of({ladder}),
          {{"ladder.svg", svg_of({ladder})}}};
}

Outcome optimize_outcome(const std::vector<Ladder>& ladders) {
  Figures figures{"optimize", ladders.at(0).device_name, {}, ladders.at(0).settings};
  std::string table;
  base::Json list = base::Json::array();
  for (const auto& ladder : ladders) {
    add_figures(figures, ladder);
    table += (table.empty() ? "" : "\n") + heading(ladder) + rung_table(ladder);
    base::Json rungs = base::Json::array();
    for (const auto& rung : ladder.rungs) rungs.push_back(rung_json(ladder, rung));
    list.push_back({{"workload", ladder.workload}, {"rungs", rungs}});
  }
  auto json = result_json(figures);
  json["ladders"] = list;
  return {"optimize", table, json.dump(2) + "\n", csv_of(ladders), {{"optimize.svg", svg_of(ladders)}}};
}

}  // namespace hyperion::bench
