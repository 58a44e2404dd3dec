#include "hyperion/bench/hardware.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "hyperion/base/clock.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/bench/figures.h"
#include "hyperion/report/plot.h"

namespace hyperion::bench {
namespace {

struct KindText {
  const char *kind, *title;
};
constexpr KindText kKindTexts[] = {{"matmul", "matrix products"},
                                   {"bandwidth", "memory bandwidth"},
                                   {"transfer", "transfers"},
                                   {"latency", "latency"}};

std::string size_text(const HardwareRow& row) {
  if (row.kind == "latency") return "";
  if (row.kind == "transfer") return base::bytes_text(static_cast<uint64_t>(row.size));
  if (row.kind == "bandwidth" && row.size % 1'000'000 == 0) return base::format("{} M", row.size / 1'000'000);
  return base::format("{}", row.size);
}

// Enough digits for the largest of a block, so that the points of a column stand under each other.
int decimals_for(const std::vector<const HardwareRow*>& rows) {
  double largest = 0;
  for (const HardwareRow* row : rows) largest = std::max(largest, row->value());
  return largest < 1 ? 4 : largest < 10 ? 3 : largest < 100 ? 2 : 1;
}

std::vector<const HardwareRow*> rows_of(const HardwareResult& result, const std::string& kind) {
  std::vector<const HardwareRow*> rows;
  for (const HardwareRow& row : result.rows) {
    if (row.kind == kind) rows.push_back(&row);
  }
  return rows;
}

std::string block_text(const KindText& kind, const std::vector<const HardwareRow*>& rows, bool color) {
  const char *bold = color ? "\x1b[1m" : "", *dim = color ? "\x1b[2m" : "", *plain = color ? "\x1b[0m" : "";
  const int decimals = decimals_for(rows);
  const bool peaks = std::any_of(rows.begin(), rows.end(), [](const HardwareRow* row) { return row->peak > 0; });
  std::string text = base::format("\n{}{:<26}{:>10}{:>11}   {:<21}{:>9}{}{}\n", bold, kind.title, "", rows[0]->unit(),
                                  "p10 .. p90", "repeats", peaks ? "   of peak" : "", plain);
  for (const HardwareRow* row : rows) {
    const std::string spread = base::format("{:.{}f} .. {:.{}f}", row->low(), decimals, row->high(), decimals);
    const std::string percent = row->peak > 0 ? base::format("{:>9.1f}%", row->percent()) : "";
    text += base::format("  {:<24}{:>10}{:>11.{}f}   {}{:<21}{:>9}{}{}\n", row->name, size_text(*row), row->value(),
                         decimals, dim, spread, row->seconds.repeats, plain, percent);
  }
  return text;
}

base::Json row_json(const HardwareRow& row) {
  base::Json json = {{"kind", row.kind},
                     {"name", row.name},
                     {"size", row.size},
                     {"unit", row.unit()},
                     {"value", row.value()},
                     {"low", row.low()},
                     {"high", row.high()},
                     {"repeats", row.seconds.repeats},
                     {"seconds", row.seconds.median},
                     {"peak", nullptr},
                     {"percent_of_peak", nullptr}};
  if (row.peak > 0) json["peak"] = row.peak, json["percent_of_peak"] = row.percent();
  return json;
}

// One series a name, in the order of the rows.
report::Plot plot_of(const HardwareResult& result, const std::string& kind, double x_scale) {
  report::Plot plot;
  for (const HardwareRow* row : rows_of(result, kind)) {
    auto series =
        std::find_if(plot.series.begin(), plot.series.end(), [&](const auto& s) { return s.name == row->name; });
    if (series == plot.series.end()) series = plot.series.insert(series, report::Series{row->name, {}, {}});
    series->x.push_back(static_cast<double>(row->size) / x_scale);
    series->y.push_back(row->value());
  }
  return plot;
}

}  // namespace

std::string hardware_table(const HardwareResult& result, bool color) {
  std::string text =
      base::format("{} ({}), torch {}, {} CPU threads{}\npeak: {}\n", result.device_name, result.device,
                   result.torch_version, result.threads, result.quick ? ", quick" : "", result.peak_source);
  for (const KindText& kind : kKindTexts) {
    const auto rows = rows_of(result, kind.kind);
    if (!rows.empty()) text += block_text(kind, rows, color);
  }
  if (!result.notes.empty()) text += "\n";
  for (const std::string& note : result.notes) text += "note: " + note + "\n";
  return text;
}

std::string hardware_json(const HardwareResult& result) {
  Figures figures{"hardware", result.device_name, {}};
  for (const HardwareRow& row : result.rows)
    figures.list.push_back({row.size > 0 ? base::format("{} {} {}", row.kind, row.name, row.size)
                                         : base::format("{} {}", row.kind, row.name),
                            row.unit(), row.value(), row.low(), row.high(), row.work == 0, row.seconds.repeats < 2});
  base::Json json = result_json(figures);
  json.update({{"device", result.device},
               {"torch", result.torch_version},
               {"peak_source", result.peak_source},
               {"time", base::utc_text(result.unix_seconds)},
               {"threads", result.threads},
               {"quick", result.quick},
               {"rows", base::Json::array()},
               {"notes", result.notes}});
  for (const HardwareRow& row : result.rows) json["rows"].push_back(row_json(row));
  return json.dump(2) + "\n";
}

std::string hardware_csv(const HardwareResult& result) {
  std::string text = "kind,name,size,unit,value,low,high,repeats,seconds,peak,percent_of_peak\n";
  for (const HardwareRow& row : result.rows) {
    text += base::format("{},{},{},{},{:.6g},{:.6g},{:.6g},{},{:.6g},", row.kind, row.name, row.size, row.unit(),
                         row.value(), row.low(), row.high(), row.seconds.repeats, row.seconds.median);
    text += row.peak > 0 ? base::format("{:.6g},{:.4g}\n", row.peak, row.percent()) : ",\n";
  }
  return text;
}

std::string matmul_svg(const HardwareResult& result) {
  report::Plot plot = plot_of(result, "matmul", 1);
  plot.title = "Matrix products on " + result.device_name;
  plot.x_label = "size n of an n x n product", plot.y_label = "TFLOP/s";
  plot.log_x = true;
  return report::svg(plot);
}

std::string bandwidth_svg(const HardwareResult& result) {
  report::Plot plot = plot_of(result, "bandwidth", 1e6);
  plot.title = "Memory bandwidth of " + result.device_name;
  plot.x_label = "million fp32 elements", plot.y_label = "GB/s";
  plot.log_x = true;
  return report::svg(plot);
}

void write_hardware_files(const HardwareResult& result, const base::Path& folder, base::FileSystem& files) {
  files.create_folders(folder);
  base::write_atomically(files, folder / "hardware.json", hardware_json(result));
  base::write_atomically(files, folder / "hardware.csv", hardware_csv(result));
  if (!rows_of(result, "matmul").empty()) base::write_atomically(files, folder / "matmul.svg", matmul_svg(result));
  if (!rows_of(result, "bandwidth").empty())
    base::write_atomically(files, folder / "bandwidth.svg", bandwidth_svg(result));
}

}  // namespace hyperion::bench
