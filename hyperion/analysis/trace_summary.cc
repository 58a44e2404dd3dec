#include "hyperion/analysis/trace_summary.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::analysis {
namespace {

std::vector<bool> wanted_types(const trace::Trace& trace, const std::string& category) {
  std::vector<bool> wanted(trace.types.size(), category.empty());
  if (category.empty()) return wanted;
  std::string known;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto& type = trace.types[i];
    const auto word = trace.names[type.category_name];
    wanted[i] = category == category_text(type.category) || category == word;
    const auto shown = std::string(word.empty() ? category_text(type.category) : word);
    if (known.find(shown) == std::string::npos) known += (known.empty() ? "" : ", ") + shown;
  }
  if (std::find(wanted.begin(), wanted.end(), true) == wanted.end())
    throw base::ConfigError(base::format("{} has no event of category {}", trace.facts.path, category),
                            base::format("it has {}", known.empty() ? "none at all" : known));
  return wanted;
}

}  // namespace

TraceSummary summarize(const trace::Trace& trace, const SummaryOptions& options) {
  const auto types = wanted_types(trace, options.category);
  std::vector<bool> names(trace.names.size(), true);
  if (!options.name.empty())
    for (uint32_t id = 0; id < names.size(); ++id)
      names[id] = trace.names[id].find(options.name) != std::string_view::npos;
  TraceSummary summary;
  std::array<CategoryRow, static_cast<size_t>(trace::Category::other) + 1> rows;
  const auto longer = [&](uint32_t a, uint32_t b) {
    return trace.duration[a] != trace.duration[b] ? trace.duration[a] > trace.duration[b] : a < b;
  };
  summary.begin = INT64_MAX, summary.end = INT64_MIN;
  for (size_t i = 0; i < trace.size(); ++i) {
    const bool named = trace.name[i] == trace::kNoString ? options.name.empty() : names[trace.name[i]];
    if (!types[trace.type[i]] || !named) continue;
    ++summary.matching;
    auto& row = rows[static_cast<size_t>(trace.category(i))];
    row.category = trace.category(i);
    ++row.count;
    row.duration += std::max<int64_t>(trace.duration[i], 0);
    if (trace.begin[i] == trace::kNoTime) continue;
    summary.begin = std::min(summary.begin, trace.begin[i]);
    summary.end = std::max(summary.end, trace.end(i));
    if (trace.duration[i] < 0 || options.longest == 0) continue;
    auto& kept = summary.longest;  // a heap with the shortest of them on top
    const auto number = static_cast<uint32_t>(i);
    if (kept.size() == options.longest) {
      if (!longer(number, kept.front())) continue;
      std::pop_heap(kept.begin(), kept.end(), longer);
      kept.pop_back();
    }
    kept.push_back(number);
    std::push_heap(kept.begin(), kept.end(), longer);
  }
  if (summary.begin > summary.end) summary.begin = summary.end = 0;
  std::sort_heap(summary.longest.begin(), summary.longest.end(), longer);
  for (const auto& row : rows)
    if (row.count > 0) summary.categories.push_back(row);
  std::stable_sort(summary.categories.begin(), summary.categories.end(),
                   [](const CategoryRow& a, const CategoryRow& b) { return a.count > b.count; });
  return summary;
}

base::Json summary_json(const trace::Trace& trace, const TraceSummary& summary) {
  base::Json categories = base::Json::array(), longest = base::Json::array();
  for (const auto& row : summary.categories)
    categories.push_back({{"category", category_text(row.category)},
                          {"count", row.count},
                          {"duration_us", static_cast<double>(row.duration) / 1000}});
  for (const uint32_t i : summary.longest) {
    const auto& track = trace.tracks[trace.track[i]];
    const auto args = trace.args(i);
    const auto value = [](const std::string& json) { return json.empty() ? base::Json() : base::Json::parse(json); };
    longest.push_back({{"name", trace.name_text(i)},
                       {"category", category_text(trace.category(i))},
                       {"begin_us", static_cast<double>(trace.begin[i]) / 1000},
                       {"duration_us", static_cast<double>(trace.duration[i]) / 1000},
                       {"pid", value(track.pid)},
                       {"tid", value(track.tid)},
                       {"args", value(args)}});
  }
  const auto& facts = trace.facts;
  return {{"file", facts.path},
          {"rank", facts.rank ? base::Json(*facts.rank) : base::Json()},
          {"world_size", facts.world_size ? base::Json(*facts.world_size) : base::Json()},
          {"events", trace.size()},
          {"matching", summary.matching},
          {"begin_us", static_cast<double>(summary.begin) / 1000},
          {"end_us", static_cast<double>(summary.end) / 1000},
          {"categories", std::move(categories)},
          {"longest", std::move(longest)}};
}

}  // namespace hyperion::analysis
