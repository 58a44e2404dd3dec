#include "hyperion/command/measured_rows.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/printable.h"
#include "hyperion/bench/outcome.h"

namespace hyperion::cli {
namespace {

using base::format;
using base::Json;

std::string share_text(const std::optional<double>& share) { return share ? format("{:.2f}%", 100 * *share) : ""; }

// Several adapters are told from each other by their names.
std::string form_text(const MeasuredRow& row, bool several) {
  return several && !row.adapter.empty() ? format("{} {}", row.form, row.adapter) : row.form;
}

std::string head_line(const data::MeasuredSet& set, const train::MeasureSize& size, const MeasuredRow& first) {
  std::string text = format("{}, {}: {} {} measured", set.folder().string(),
                            set.part() == "all" ? "all of it (nothing was held out)" : "its validation part",
                            base::with_commas(first.result.counted), set.has_images() ? "images" : "tokens");
  if (!set.has_images())
    text += format(" of {} documents, each for itself, at most {} at a time", base::with_commas(set.records()),
                   base::with_commas(size.length));
  if (size.batches > 0)
    text += format(" (at most {} samples)", base::with_commas(size.batches * train::kMeasuredBatch));
  return text;
}

}  // namespace

std::string measured_table(const data::MeasuredSet& set, const train::MeasureSize& size,
                           const std::vector<MeasuredRow>& rows) {
  std::set<std::string> adapters;
  for (const auto& row : rows)
    if (!row.adapter.empty()) adapters.insert(row.adapter);
  const bool images = set.has_images();
  const bool top_5 = std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.result.top_5; });
  std::vector<std::vector<std::string>> table = {{"model", "form", "weights", "loss"}};
  table[0].emplace_back(images ? "top 1" : "perplexity");
  if (!images) table[0].emplace_back("accuracy");
  if (top_5) table[0].emplace_back("top 5");
  table[0].emplace_back("to the first");
  for (const auto& row : rows) {
    const auto& result = row.result;
    table.push_back({base::printable(row.model), form_text(row, adapters.size() > 1),
                     row.precision + (row.quantized ? ", nf4" : ""), format("{:.5f}", result.loss)});
    auto& cells = table.back();
    cells.push_back(images ? share_text(result.top_1) : format("{:.4f}", result.perplexity.value_or(0)));
    if (!images) cells.push_back(share_text(result.token_accuracy));
    if (top_5) cells.push_back(share_text(result.top_5));
    cells.push_back(&row == &rows.front() ? "" : format("{:+.5f}", result.loss - rows.front().result.loss));
  }
  return head_line(set, size, rows.front()) + "\n\n" + bench::aligned(table, {0, 1, 2});
}

std::string measured_json(const data::MeasuredSet& set, const train::MeasureSize& size,
                          const std::vector<MeasuredRow>& rows) {
  Json list = Json::array();
  for (const auto& row : rows) {
    Json json = {{"model", row.model},
                 {"form", row.form.empty() ? Json() : Json(row.form)},
                 {"adapter", row.adapter.empty() ? Json() : Json(row.adapter)},
                 {"step", row.step},
                 {"precision", row.precision},
                 {"quantize", row.quantized ? "nf4" : "none"},
                 {"loss", row.result.loss}};
    const std::pair<const char*, std::optional<double>> figures[] = {{"perplexity", row.result.perplexity},
                                                                     {"token_accuracy", row.result.token_accuracy},
                                                                     {"top_1", row.result.top_1},
                                                                     {"top_5", row.result.top_5}};
    for (const auto& [name, value] : figures)
      if (value) json[name] = *value;
    json[set.has_images() ? "images" : "tokens"] = row.result.counted;
    json["difference"] = row.result.loss - rows.front().result.loss;
    list.push_back(std::move(json));
  }
  Json json = {{"set", set.folder().string()}, {"part", set.part()}, {"rows", std::move(list)}};
  if (!set.has_images()) json["documents"] = set.records(), json["length"] = size.length;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hyperion::cli
