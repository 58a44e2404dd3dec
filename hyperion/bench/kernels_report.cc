#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/bench/figures.h"
#include "hyperion/bench/kernels.h"
#include "hyperion/report/bars.h"
#include "hyperion/report/plot.h"

namespace hyperion::bench {
namespace {

using base::format;

std::string table_of(const KernelResult& result) {
  const bool cut = std::any_of(result.rows.begin(), result.rows.end(), [](const auto& row) { return row.shards > 1; });
  std::vector<std::vector<std::string>> rows = {{"operation", "pass", "size", "dtype", "shape", "us", "+-", "rate", "",
                                                 "of ceiling", "ATen us", "ATen/ours", "extra MiB"}};
  if (cut) rows[0].emplace_back("of uncut");
  for (const auto& row : result.rows) {
    rows.push_back({row.operation, row.pass, row.size, row.dtype, row.shape, format("{:.2f}", 1e6 * row.ours.median),
                    noise_text(row.ours), format("{:.4g}", row.rate()), row.bound_by_products ? "TFLOP/s" : "GB/s",
                    format("{:.1f}%", row.percent()),
                    row.aten.repeats > 0 ? format("{:.2f}", 1e6 * row.aten.median) : "",
                    row.ratio() > 0 ? format("{:.2f}x", row.ratio()) : "",
                    row.extra >= 0 ? format("{:.1f}", row.extra / (1 << 20)) : ""});
    if (cut) rows.back().push_back(row.percent_of_uncut > 0 ? format("{:.1f}%", row.percent_of_uncut) : "");
  }
  return aligned(rows, {0, 1, 2, 3, 4, 8});
}

std::string mlp_table_of(const KernelResult& result) {
  std::vector<std::vector<std::string>> rows = {
      {"layer", "size", "dtype", "shape", "pass", "step", "us", "+-", "share"}};
  for (const auto& row : result.mlp)
    rows.push_back({row.layer, row.size, row.dtype, row.shape, row.pass, row.step,
                    format("{:.2f}", 1e6 * row.ours.median), noise_text(row.ours), format("{:.1f}%", 100 * row.share)});
  return aligned(rows, {0, 1, 2, 3, 4, 5});
}

base::Json row_json(const KernelRow& row) {
  return {{"operation", row.operation},
          {"pass", row.pass},
          {"size", row.size},
          {"dtype", row.dtype},
          {"shape", row.shape},
          {"us", 1e6 * row.ours.median},
          {"bytes", row.cost.bytes},
          {"flops", row.cost.flops},
          {"rate", row.rate()},
          {"unit", row.bound_by_products ? "TFLOP/s" : "GB/s"},
          {"percent_of_ceiling", row.percent()},
          {"percent_of_uncut", row.percent_of_uncut > 0 ? base::Json(row.percent_of_uncut) : base::Json(nullptr)},
          {"aten_us", row.aten.repeats > 0 ? base::Json(1e6 * row.aten.median) : base::Json(nullptr)},
          {"aten_over_ours", row.ratio() > 0 ? base::Json(row.ratio()) : base::Json(nullptr)},
          {"extra_bytes", row.extra >= 0 ? base::Json(row.extra) : base::Json(nullptr)}};
}

std::string json_of(const KernelResult& result) {
  Figures figures{"kernels", result.device_name, {}};
  base::Json rows = base::Json::array(), products = base::Json::object();
  for (const auto& row : result.rows) {
    figures.list.push_back(time_figure(row.name(), "us", row.ours, 1e6));
    rows.push_back(row_json(row));
  }
  for (const auto& [dtype, tflops] : result.product_tflops) products[dtype] = tflops;
  base::Json mlp = base::Json::array();
  for (const auto& row : result.mlp)
    mlp.push_back({{"layer", row.layer},
                   {"size", row.size},
                   {"dtype", row.dtype},
                   {"shape", row.shape},
                   {"pass", row.pass},
                   {"step", row.step},
                   {"us", 1e6 * row.ours.median},
                   {"share", row.share}});
  auto json = result_json(figures);
  json.update({{"rows", rows},
               {"mlp", mlp},
               {"copy_gb_s", result.copy_gb_s},
               {"product_tflops", products},
               {"notes", result.notes}});
  return json.dump(2) + "\n";
}

std::string csv_of(const KernelResult& result) {
  std::vector<std::vector<std::string>> rows = {{"operation", "pass", "size", "dtype", "shape", "us", "us_low",
                                                 "us_high", "bytes", "flops", "rate", "unit", "percent_of_ceiling",
                                                 "aten_us", "aten_over_ours", "extra_bytes", "step", "share_of_layer"}};
  for (const auto& row : result.rows)
    rows.push_back({row.operation, row.pass, row.size, row.dtype, row.shape, format("{:.6g}", 1e6 * row.ours.median),
                    format("{:.6g}", 1e6 * row.ours.low), format("{:.6g}", 1e6 * row.ours.high),
                    format("{:.0f}", row.cost.bytes), format("{:.0f}", row.cost.flops), format("{:.6g}", row.rate()),
                    row.bound_by_products ? "TFLOP/s" : "GB/s", format("{:.4g}", row.percent()),
                    row.aten.repeats > 0 ? format("{:.6g}", 1e6 * row.aten.median) : "",
                    row.ratio() > 0 ? format("{:.4g}", row.ratio()) : "",
                    row.extra >= 0 ? format("{:.0f}", row.extra) : "", "", ""});
  for (const auto& row : result.mlp)
    rows.push_back({row.layer, row.pass, row.size, row.dtype, row.shape, format("{:.6g}", 1e6 * row.ours.median),
                    format("{:.6g}", 1e6 * row.ours.low), format("{:.6g}", 1e6 * row.ours.high), "", "", "", "", "", "",
                    "", "", row.step, format("{:.4g}", row.share)});
  return csv_text(rows);
}

std::string svg_of(const KernelResult& result) {
  std::vector<report::BarGroup> groups;
  for (const auto& row : result.rows) {
    const auto name = row.operation + " " + row.pass;
    if (groups.empty() || groups.back().name != name) groups.push_back({name, {}});
    groups.back().bars.push_back(
        {row.size + " " + row.dtype, row.percent(), format("{:.0f}% of the ceiling", row.percent()), 0});
  }
  return report::bars_svg("Kernels against what was measured of " + result.device_name, groups,
                          report::BarScale::shared);
}

[[noreturn]] void not_kernels(const std::string& place) {
  throw base::CorruptError(place + " is not a result of `bench kernels`",
                           "name the folder or the kernels.json that `hyperion bench kernels` wrote");
}

}  // namespace

Outcome kernel_outcome(const KernelResult& result) {
  std::string table = format(
      "{}; the median of repeats. Ceiling: a copy of as many bytes, or the rate of a large "
      "product, measured in this run\n\n{}",
      result.device_name, table_of(result));
  table += format("\nbest copy {:.1f} GB/s", result.copy_gb_s);
  for (const auto& [dtype, tflops] : result.product_tflops)
    table += format(", {} product {:.4g} TFLOP/s", dtype, tflops);
  table += "\n";
  for (const auto& note : result.notes) table += "note: " + note + "\n";
  if (!result.mlp.empty())
    table += "\nA feed-forward layer by operation, as fused blocks run it\n\n" + mlp_table_of(result);
  return {"kernels", table, json_of(result), csv_of(result), {{"kernels.svg", svg_of(result)}}};
}

Outcome roofline_outcome(const std::string& kernels_json, const std::string& place) {
  const auto json = base::parse_json(kernels_json, place);
  if (!json.is_object() || json.value("bench", base::Json()) != "kernels") not_kernels(place);
  try {
    report::Plot plot;
    plot.title = "Roofline of " + json.at("device_name").get<std::string>();
    plot.x_label = "operations a byte", plot.y_label = "TFLOP/s";
    plot.log_x = plot.log_y = true, plot.width = 860, plot.height = 520;
    // Memory's and products' kernels; each tells its name where it is pointed at, and the farthest below their roof
    // anyway.
    report::Series kinds[2] = {{"passes over memory", {}, {}}, {"products", {}, {}}};
    struct Place {
      double part;
      size_t kind, index;
    };
    std::vector<Place> places;
    std::vector<std::vector<std::string>> rows = {{"kernel", "operations a byte", "TFLOP/s", "of its roof"}};
    const double copy = json.at("copy_gb_s");
    const auto roof = [&](double intensity, const std::string& dtype) {
      const double memory = intensity * copy / 1e3;
      const auto& products = json.at("product_tflops");
      return products.contains(dtype) ? std::min(memory, products.at(dtype).get<double>()) : memory;
    };
    double low = 1e300, high = 0;
    for (const auto& row : json.at("rows")) {
      const double bytes = row.at("bytes"), flops = row.at("flops"), seconds = row.at("us").get<double>() / 1e6;
      const auto name = format("{} {}", row.at("operation").get<std::string>(), row.at("pass").get<std::string>());
      const double intensity = flops / bytes, tflops = flops / seconds / 1e12;
      const size_t kind = row.at("unit").get<std::string>() == "TFLOP/s" ? 1 : 0;
      const double part = tflops / roof(intensity, row.at("dtype").get<std::string>());
      const auto whole =
          format("{} {} {}", name, row.at("size").get<std::string>(), row.at("dtype").get<std::string>());
      places.push_back({part, kind, kinds[kind].x.size()});
      kinds[kind].x.push_back(intensity), kinds[kind].y.push_back(tflops), kinds[kind].points.push_back({whole});
      low = std::min(low, intensity), high = std::max(high, intensity);
      rows.push_back({whole, format("{:.3g}", intensity), format("{:.4g}", tflops), format("{:.1f}%", 100 * part)});
    }
    if (rows.size() == 1) not_kernels(place);
    // The slope is memory's; each type's products cut it off.
    report::Series slope{format("memory: {:.0f} GB/s", copy), {}, {}};
    double ridge = 0;
    for (const auto& [dtype, value] : json.at("product_tflops").items())
      ridge = std::max(ridge, value.get<double>() * 1e3 / copy);
    if (ridge == 0) ridge = high;
    for (const double x : {low / 2, ridge}) slope.x.push_back(x), slope.y.push_back(x * copy / 1e3);
    plot.series.push_back(slope);
    for (const auto& [dtype, value] : json.at("product_tflops").items()) {
      const double tflops = value;
      plot.series.push_back({format("{} products: {:.4g} TFLOP/s", dtype, tflops),
                             {tflops * 1e3 / copy, 2 * std::max(ridge, high)},
                             {tflops, tflops}});
    }
    std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.part < b.part; });
    for (size_t i = 0; i < std::min<size_t>(5, places.size()); ++i)
      kinds[places[i].kind].points[places[i].index].beside = true;
    for (auto& kind : kinds)
      if (!kind.x.empty()) plot.series.push_back(std::move(kind));
    return {"roofline", aligned(rows), "", csv_text(rows), {{"roofline.svg", report::svg(plot)}}};
  } catch (const base::Json::exception&) {
    not_kernels(place);
  }
}

}  // namespace hyperion::bench
