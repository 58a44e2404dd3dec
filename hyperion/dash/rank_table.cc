#include "hyperion/dash/rank_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/dash/growing_file.h"

namespace hyperion::dash {
namespace {

using base::Json;

constexpr size_t kTailBytes = 8 << 10;  // some 20 steps
constexpr size_t kLongestHeader = 4 << 10;
constexpr const char* kShown[] = {
    "step_ms",     "data_wait_ms", "forward_ms",   "backward_ms",   "optimizer_ms", "comm_ms",     "stopped_ms",
    "memory_peak", "loss",         "tokens_per_s", "gpu_clock_mhz", "gpu_power_w",  "gpu_celsius", "gpu_busy_percent"};

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (size_t from = 0; from <= line.size();) {
    const size_t end = std::min(line.find(',', from), line.size());
    cells.push_back(line.substr(from, end - from));
    from = end + 1;
  }
  return cells;
}

std::optional<double> number_of(std::string_view cell) {
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  const bool whole = error == std::errc() && end == cell.data() + cell.size();
  return whole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

struct Mean {
  double sum = 0;
  int64_t count = 0;
};

Json row_of(const base::Path& path, int rank) {
  const std::string header = first_line(path, kLongestHeader);
  const auto names = cells_of(header);
  Json row{{"rank", rank}};
  std::map<std::string_view, Mean> means;
  int64_t steps = 0;
  const std::string tail = last_lines(path, kTailBytes);
  for (std::string_view rest = tail; rest.find('\n') != rest.npos;) {
    const auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() + 1);
    const auto cells = cells_of(line);
    if (cells.size() != names.size() || !number_of(cells[0])) continue;
    ++steps;
    row["step"] = *number_of(cells[0]);
    for (size_t i = 1; i < cells.size(); ++i) {
      if (const auto number = number_of(cells[i])) means[names[i]].sum += *number, ++means[names[i]].count;
      if (names[i] == "held_up" || names[i] == "gpu_slowed") row[std::string(names[i])] = std::string(cells[i]);
    }
  }
  row["steps"] = steps;
  for (const char* key : kShown)
    if (const auto at = means.find(key); at != means.end())
      row[key] = at->second.sum / static_cast<double>(at->second.count);
  return row;
}

// 3 of "metrics.rank-3.csv".
std::optional<int> rank_of(const std::string& name) {
  constexpr std::string_view kBefore = "metrics.rank-", kAfter = ".csv";
  if (!name.starts_with(kBefore) || !name.ends_with(kAfter) || name.size() <= kBefore.size() + kAfter.size()) return {};
  int rank = 0;
  const char *begin = name.data() + kBefore.size(), *end = name.data() + name.size() - kAfter.size();
  const auto [at, error] = std::from_chars(begin, end, rank);
  return error == std::errc() && at == end && rank >= 0 ? std::optional(rank) : std::nullopt;
}

}  // namespace

Json rank_table(const base::Path& run) {
  std::map<int, base::Path> files;
  for (const auto& path : base::real_files().list(run))
    if (const auto rank = rank_of(path.filename().string())) files[*rank] = path;
  Json table{{"left_out", files.size() > kMostRanks ? files.size() - kMostRanks : 0}, {"ranks", Json::array()}};
  for (const auto& [rank, path] : files)
    if (table["ranks"].size() < kMostRanks) table["ranks"].push_back(row_of(path, rank));
  return table;
}

}  // namespace hyperion::dash
